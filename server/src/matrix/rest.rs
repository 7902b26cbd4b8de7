//! Every method and address of the OpenAPI document, below `/api/v1`.

use super::{MatrixRow, table};

pub(super) const REST: &[MatrixRow] = table! {
    // Sign-in and invitations.
    "POST /session": ! "whoever knows e-mail and password";
    "POST /session/second-factor": ! "whoever has begun to sign in, and has the code";
    "POST /session/passkey": ! "whoever has a passkey of the account";
    "POST /session/passkey/challenge": ! "everybody: it is a number drawn at random";
    "POST /session/refresh": ! "whoever bears the session's refresh token";
    "DELETE /session": EndSession @ Server;
    "POST /session/proof": ProveIdentity @ Server;
    "POST /invitations/{token}/accept": ! "whoever bears the link";
    "GET /invitations/{token}": ! "whoever bears the link";
    "POST /invitations/{token}/join": JoinByLink @ Server;
    "GET /password-resets/{token}": ! "whoever bears the link";
    "POST /password-resets/{token}": ! "whoever bears the link";
    "POST /password-resets": ResetPassword @ Server;
    "GET /schemas/certificate.json": ! "everybody: it is a form, with nothing in it";

    // The caller's own account.
    "GET /me": ReadSelf @ Server;
    "PUT /me/password": ChangePassword @ Server;
    "GET /me/second-factor": ReadSelf @ Server;
    "POST /me/second-factor": ManageFactor @ Server;
    "PUT /me/second-factor": ManageFactor @ Server;
    "POST /me/second-factor/off": ManageFactor @ Server;
    "POST /me/second-factor/recovery-codes": ManageFactor @ Server;
    "GET /me/sessions": EndSession @ Server;
    "DELETE /me/sessions": EndSession @ Server;
    "DELETE /me/sessions/{id}": EndSession @ Server;
    "GET /me/passkeys": ManageFactor @ Server;
    "POST /me/passkeys": ManageFactor @ Server;
    "DELETE /me/passkeys/{id}": ManageFactor @ Server;
    "POST /me/passkeys/challenge (register)": ManageFactor @ Server;
    "POST /me/passkeys/challenge (prove)": ProveIdentity @ Server;
    "GET /me/approval-keys": ManageApprovalKeys @ Server;
    "POST /me/approval-keys": ManageApprovalKeys @ Server;
    "DELETE /me/approval-keys/{id}": ManageApprovalKeys @ Server;
    "GET /me/identities": ManageIdentities @ Server;
    "DELETE /me/identities/{id}": ManageIdentities @ Server;
    "GET /me/notifications": ReadNotifications @ Server;
    "GET /me/notifications/unread": ReadNotifications @ Server;
    "GET /me/notifications/switches": ReadNotifications @ Server;
    "PUT /me/notifications/switches": MarkNotifications @ Server;
    "POST /me/notifications/read": MarkNotifications @ Server;
    "POST /me/notifications/{id}/read": MarkNotifications @ Server;
    "GET /keys": ManageKeys @ Server;
    "POST /keys": ManageKeys @ Server;
    "DELETE /keys/{id}": ManageKeys @ Server;

    // Operators and accounts.
    "GET /members": ManageAccounts @ Server;
    "POST /members/{id}/retirement": ManageAccounts @ Server;
    "POST /members/{id}/restoration": ManageAccounts @ Server;
    "GET /operators/invitations": InviteOperator @ Server;
    "DELETE /operators/invitations/{invitation}": InviteOperator @ Server;

    // Consortia.
    "GET /consortia": ListConsortia @ Server;
    "POST /consortia": FoundConsortium @ Server;
    "GET /consortia/{id}": ReadConsortium @ Consortium;
    "PATCH /consortia/{id}": EditConsortium @ Consortium;
    "GET /consortia/{id}/overlap": ReadConsortium @ Consortium;
    "POST /consortia/{id}/overlap": AttestOverlap @ Consortium;
    "GET /consortia/{id}/organizations": ReadConsortium @ Consortium;
    "POST /consortia/{id}/organizations/{organization}/retirement": RetireOrganization @ Consortium;
    "POST /consortia/{id}/organizations/{organization}/restoration": RetireOrganization @ Consortium;
    "GET /consortia/{id}/invitations": InviteOrganization @ Consortium;
    "DELETE /consortia/{id}/invitations/{invitation}": InviteOrganization @ Consortium;
    "GET /consortia/{id}/annotators/invitations": InviteAnnotator @ Consortium;
    "GET /consortia/{id}/members": AssignConsortiumRole @ Consortium;
    "POST /consortia/{id}/members": AssignConsortiumRole @ Consortium;
    "PUT /consortia/{id}/members/{member}": AssignConsortiumRole @ Consortium;
    "GET /consortia/{id}/datasets": ReadDataset @ Consortium;
    "GET /consortia/{id}/ledger/bundle": ExportLedger @ Consortium;
    "GET /consortia/{id}/models": ReadJob @ Consortium;
    "GET /consortia/{id}/events": ReadJob @ Consortium;
    "GET /consortia/{id}/audit-log": ReadConsortiumLog @ Consortium;
    "GET /consortia/{id}/audit-log/check": ReadConsortiumLog @ Consortium;
    "GET /consortia/{id}/audit-log/export": ReadConsortiumLog @ Consortium;
    "POST /invitations (organization)": InviteOrganization @ Consortium;
    "POST /invitations (annotator)": InviteAnnotator @ Consortium;
    "POST /invitations (member)": InviteMember @ Organization;
    "POST /invitations (operator)": InviteOperator @ Server;

    // Organizations.
    "GET /organizations": ListOrganizations @ Server;
    "GET /organizations/{id}": ReadOrganization @ Organization;
    "GET /organizations/{id}/members": ListMembers @ Organization;
    "PUT /organizations/{id}/members/{member}": AssignRole @ Organization;
    "DELETE /organizations/{id}/members/{member}": RemoveMember @ Organization;
    "POST /organizations/{id}/members/{member}/address-confirmation": ConfirmAddress @ Organization;
    "GET /organizations/{id}/invitations": InviteMember @ Organization;
    "DELETE /organizations/{id}/invitations/{invitation}": InviteMember @ Organization;
    "GET /organizations/{id}/workers": ReadOrganization @ Organization;
    "POST /organizations/{id}/workers": EnrolWorker @ Organization;
    "POST /organizations/{id}/workers/{worker}/retirement": RetireWorker @ Organization;
    "POST /organizations/{id}/workers/{worker}/restoration": RetireWorker @ Organization;
    "POST /organizations/{id}/workers/{worker}/write-off": RetireWorker @ Organization;
    "POST /organizations/{id}/workers/{worker}/replacement": EnrolWorker @ Organization;
    "GET /organizations/{id}/retired-members": RetireMember @ Organization;
    "POST /organizations/{id}/members/{member}/retirement": RetireMember @ Organization;
    "POST /organizations/{id}/members/{member}/restoration": RetireMember @ Organization;
    "GET /organizations/{id}/audit-log": ReadOrganizationLog @ Organization;
    "GET /organizations/{id}/audit-log/check": ReadOrganizationLog @ Organization;
    "GET /organizations/{id}/audit-log/export": ReadOrganizationLog @ Organization;
    "GET /audit-log": ReadServerLog @ Server;
    "GET /audit-log/check": ReadServerLog @ Server;
    "GET /audit-log/export": ReadServerLog @ Server;

    // Datasets and ledgers.
    "GET /datasets/{id}": ReadDataset @ Organization;
    "GET /datasets/{id}/budgets": ReadDataset @ Organization;
    "PUT /datasets/{id}/budgets": SetBudget @ Organization;
    "GET /datasets/{id}/balances": ReadDataset @ Organization;
    "GET /datasets/{id}/history": ReadLedger @ Organization;
    "GET /datasets/{id}/ledger": ReadLedger @ Organization;
    "GET /datasets/{id}/freezes": ReadDataset @ Organization;
    "POST /datasets/{id}/freezes/clear": ClearFreeze @ Organization;
    "GET /datasets/{id}/approval-limits": ReadApprovalLimit @ Organization;
    "POST /datasets/{id}/approval-limits": SetApprovalLimit @ Organization;
    "DELETE /datasets/{id}/approval-limits": SetApprovalLimit @ Organization;
    "GET /accounts/{id}/entries/{sequence}": ReadLedger @ Organization;
    "GET /log/head": ReadLog @ Server;
    "GET /log/heads": ReadLog @ Server;
    "GET /log/consistency": ReadLog @ Server;

    // Jobs.
    "POST /plans": PlanJob @ Consortium;
    "GET /consortia/{id}/jobs": ReadJob @ Consortium;
    "POST /consortia/{id}/jobs": ProposeJob @ Consortium;
    "POST /consortia/{id}/jobs/again": ProposeJob @ Consortium;
    "GET /consortia/{id}/drafts": WriteDraft @ Consortium;
    "POST /consortia/{id}/drafts": WriteDraft @ Consortium;
    "GET /drafts/{id}": WriteDraft @ Consortium;
    "PUT /drafts/{id}": WriteDraft @ Consortium;
    "DELETE /drafts/{id}": WriteDraft @ Consortium;
    "POST /drafts/{id}/propose": WriteDraft @ Consortium && ProposeJob @ Consortium;
    "GET /jobs/{id}": ReadJob @ Consortium;
    "GET /jobs/{id}/progress": ReadJob @ Consortium;
    "GET /jobs/{id}/events": ReadJob @ Consortium;
    "GET /jobs/{id}/log": ReadJob @ Consortium;
    "GET /jobs/{id}/log/export": ReadJob @ Consortium;
    "GET /jobs/{id}/audits": ReadJob @ Consortium;
    "GET /jobs/{id}/certificate": ReadJob @ Consortium;
    "GET /jobs/{id}/report": ReadJob @ Consortium;
    "GET /jobs/{id}/report.html": ReadJob @ Consortium;
    "POST /jobs/{id}/cancel": CancelJob @ Consortium, only "a researcher ends jobs of their own";
    "POST /jobs/{id}/pause": PauseJob @ Consortium, only "a researcher pauses jobs of their own";
    "POST /jobs/{id}/resume": PauseJob @ Consortium, only "a researcher pauses jobs of their own";
    "POST /jobs/{id}/clone": WriteDraft @ Consortium;
    "POST /jobs/{id}/retry": ProposeJob @ Consortium;
    "GET /jobs/{id}/datasets/{dataset}/review": ReadJob @ Consortium;
    "POST /jobs/{id}/datasets/{dataset}/approve": DecideJob @ Organization;
    "POST /jobs/{id}/datasets/{dataset}/refuse": DecideJob @ Organization;
    "POST /jobs/{id}/datasets/{dataset}/hold": HoldJob @ Organization;
    "POST /jobs/{id}/datasets/{dataset}/release": HoldJob @ Organization;
    "POST /jobs/{id}/datasets/{dataset}/leave": LeaveJob @ Organization;

    // Results of jobs.
    "GET /jobs/{id}/artifacts": ReadJob @ Consortium;
    "GET /artifacts/{id}/content": TakeModel @ Consortium;
    "GET /artifacts/{id}/model": ReadJob @ Consortium;
    "GET /artifacts/{id}/model/comparison": ReadJob @ Consortium;
    "GET /artifacts/{id}/model/card": ReadJob @ Consortium;
    "GET /artifacts/{id}/model/archive": TakeModel @ Consortium;
    "POST /artifacts/{id}/deletion": DeleteModel @ Consortium, only "an organization's admin deletes files that its worker stored";

    // Questions.
    "GET /consortia/{id}/questions": FollowQuestions @ Consortium;
    "GET /jobs/{id}/questions": ReadQuestions @ Consortium;
    "GET /jobs/{id}/questions/next": Annotate @ Consortium;
    "GET /jobs/{id}/questions/export": ReadQuestions @ Consortium;
    "POST /jobs/{id}/questions/import": ImportAnswers @ Consortium;
    "POST /questions/{id}/annotations": Annotate @ Consortium;
    "POST /questions/{id}/annotations/undo": Annotate @ Consortium;
};
