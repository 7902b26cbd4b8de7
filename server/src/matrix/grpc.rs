//! Every method of the project's gRPC services.

use super::{MatrixRow, table};

pub(super) const GRPC: &[MatrixRow] = table! {
    // Programs, by an API key. The same operations as over REST.
    "Control/WhoAmI": ReadSelf @ Server;
    "Control/ListConsortia": ListConsortia @ Server;
    "Control/GetConsortium": ReadConsortium @ Consortium;
    "Control/ListOrganizations": ReadConsortium @ Consortium;
    "Control/Retire (worker)": RetireWorker @ Organization;
    "Control/Retire (member)": RetireMember @ Organization;
    "Control/Retire (organization)": RetireOrganization @ Consortium;
    "Control/Retire (account)": ManageAccounts @ Server;
    "Control/Restore (worker)": RetireWorker @ Organization;
    "Control/Restore (member)": RetireMember @ Organization;
    "Control/Restore (organization)": RetireOrganization @ Consortium;
    "Control/Restore (account)": ManageAccounts @ Server;
    "Control/ListDatasets": ReadDataset @ Consortium;
    "Control/GetDataset": ReadDataset @ Organization;
    "Control/SetBudget": SetBudget @ Organization;
    "Control/ListEntries": ReadLedger @ Organization;
    "Control/PlanJob": PlanJob @ Consortium;
    "Control/ProposeJob": ProposeJob @ Consortium;
    "Control/ListJobs": ReadJob @ Consortium;
    "Control/GetJob": ReadJob @ Consortium;
    "Control/ApproveJob": DecideJob @ Organization;
    "Control/RefuseJob": DecideJob @ Organization;
    "Control/PauseJob": PauseJob @ Consortium, only "a researcher steers jobs of their own";
    "Control/ResumeJob": PauseJob @ Consortium, only "a researcher steers jobs of their own";
    "Control/LeaveJob": LeaveJob @ Organization;
    "Control/CancelJob": CancelJob @ Consortium, only "a researcher ends jobs of their own";
    "Control/RetryJob": ProposeJob @ Consortium;
    "Control/CloneJob": WriteDraft @ Consortium;
    "Control/ListDrafts": WriteDraft @ Consortium;
    "Control/GetDraft": WriteDraft @ Consortium;
    "Control/CreateDraft": WriteDraft @ Consortium;
    "Control/UpdateDraft": WriteDraft @ Consortium;
    "Control/DeleteDraft": WriteDraft @ Consortium;
    "Control/ProposeDraft": WriteDraft @ Consortium && ProposeJob @ Consortium;
    "Control/GetReport": ReadJob @ Consortium;
    "Control/ProposeJobAgain": ProposeJob @ Consortium;
    "Control/WatchJob": ReadJob @ Consortium;
    "Control/ListArtifacts": ReadJob @ Consortium;
    "Control/DownloadArtifact": TakeModel @ Consortium;
    "Control/GetCertificate": ReadJob @ Consortium;
    "Control/ExportQuestions": ReadQuestions @ Consortium;
    "Control/ImportAnswers": ImportAnswers @ Consortium;

    // Workers. They are not members: each proves its own key, and its lease determines its permissions.
    "WorkerGateway/Enroll": ! "whoever bears an enrolment token, once", only "an enrolment token that was not used";
    "WorkerGateway/Challenge": ! "anybody: it is a question", only "one answer within a minute";
    "WorkerGateway/SignIn": ! "whoever answers it with a worker's key", only "the worker's key";
    "WorkerGateway/Pins": ! "anybody: it is a question, and the answer is signed", only "32 bytes to answer";
    "WorkerGateway/RotateKey": ! "whoever holds a worker's key until now and from now on", only "both keys' signatures";
    "WorkerGateway/RegisterDataset": ! "a worker", only "a worker's session";
    "WorkerGateway/NextOffer": ! "a worker", only "a worker's session";
    "WorkerGateway/Decide": ! "a worker", only "a worker's session, and its signature";
    "WorkerGateway/Renew": ! "a worker", only "a worker's session and lease";
    "WorkerGateway/Countersign": ! "a worker", only "a worker's session and lease, and its signature";
    "WorkerGateway/Submit": ! "a worker", only "a worker's session and lease";
    "WorkerGateway/Received": ! "a worker", only "a worker's session and lease";
    "WorkerGateway/Average": ! "a worker", only "a worker's session and lease";
    "WorkerGateway/PutArtifact": ! "a worker", only "a worker's session and lease";
    "WorkerGateway/GetArtifact": ! "a worker", only "a worker's session and lease";
    "WorkerGateway/Ask": ! "a worker", only "a worker's session and lease";
    "WorkerGateway/Asked": ! "a worker", only "a worker's session and lease";
    "WorkerGateway/Choose": ! "a worker", only "a worker's session and lease";
    "WorkerGateway/Answers": ! "a worker", only "a worker's session and lease";
    "WorkerGateway/Measure": ! "a worker", only "a worker's session and lease";
    "WorkerGateway/Log": ! "a worker", only "a worker's session and lease";
    "WorkerGateway/Finish": ! "a worker", only "a worker's session and lease";
    "WorkerGateway/ExchangeHeads": ! "a worker", only "a worker's session";
    "WorkerGateway/CredentialNotices": ! "a worker", only "a worker's session";
    "WorkerGateway/Witness": ! "a worker", only "a worker's session";
    "WorkerGateway/Reconcile": ! "a worker", only "a worker's session, and its signature";
    "WorkerGateway/Receipts": ! "a worker", only "a worker's session";
};
