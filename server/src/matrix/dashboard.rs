//! Every server function under `/ui`, and every page. The first check decides about the page; it omits parts that
//! further checks refuse.

use super::{MatrixRow, table};

pub(super) const FUNCTIONS: &[MatrixRow] = table! {
    "POST /ui/sign-in": ! "whoever knows e-mail and password";
    "POST /ui/second-factor": ! "whoever has begun to sign in, and has the code";
    "POST /ui/passkey-challenge": ! "everybody: it is a number drawn at random; for a member's own passkeys the service asks";
    "POST /ui/passkey-sign-in": ! "whoever has a passkey of the account";
    "POST /ui/passkey-second-step": ! "whoever has begun to sign in, and has a passkey of the account";
    "POST /ui/sign-out": EndSession @ Server, only "who is not signed in loses their cookies";
    "POST /ui/accept": ! "whoever bears the link";
    "POST /ui/join": JoinByLink @ Server;
    "POST /ui/redeem-reset": ! "whoever bears the link";
    "POST /ui/make-reset": ResetPassword @ Server;
    "POST /ui/theme": ! "everybody: it is a cookie of their own";
    "POST /ui/end-tour": ! "who is signed in: it hides the tour of a demonstration from their own account";

    "POST /ui/prove-identity": ProveIdentity @ Server;
    "POST /ui/invite-operator": InviteOperator @ Server;
    "POST /ui/withdraw-operator": InviteOperator @ Server;
    "POST /ui/retire-account": ManageAccounts @ Server;
    "POST /ui/restore-account": ManageAccounts @ Server;
    "POST /ui/offer-factor": ManageFactor @ Server;
    "POST /ui/confirm-factor": ManageFactor @ Server;
    "POST /ui/renew-codes": ManageFactor @ Server;
    "POST /ui/drop-factor": ManageFactor @ Server;
    "POST /ui/end-session": EndSession @ Server;
    "POST /ui/end-other-sessions": EndSession @ Server;
    "POST /ui/change-password": ChangePassword @ Server;
    "POST /ui/add-passkey": ManageFactor @ Server;
    "POST /ui/remove-passkey": ManageFactor @ Server;
    "POST /ui/prove-by-passkey": ProveIdentity @ Server;
    "POST /ui/add-approval-key": ManageApprovalKeys @ Server;
    "POST /ui/remove-approval-key": ManageApprovalKeys @ Server;
    "POST /ui/create-key": ManageKeys @ Server;
    "POST /ui/revoke-key": ManageKeys @ Server;
    "POST /ui/unlink-identity": ManageIdentities @ Server;
    "POST /ui/read-notification": MarkNotifications @ Server;
    "POST /ui/read-all-notifications": MarkNotifications @ Server;
    "POST /ui/set-notifications": MarkNotifications @ Server;

    "POST /ui/found": FoundConsortium @ Server;
    "POST /ui/attest-overlap": AttestOverlap @ Consortium;
    "POST /ui/invite-organization": InviteOrganization @ Consortium;
    "POST /ui/withdraw-organization": InviteOrganization @ Consortium;
    "POST /ui/invite-annotator": InviteAnnotator @ Consortium;
    "POST /ui/add-consortium-member": AssignConsortiumRole @ Consortium;
    "POST /ui/assign-consortium-roles": AssignConsortiumRole @ Consortium;
    "POST /ui/invite-member": InviteMember @ Organization;
    "POST /ui/withdraw-member": InviteMember @ Organization;
    "POST /ui/assign-roles": AssignRole @ Organization;
    "POST /ui/remove-member": RemoveMember @ Organization;
    "POST /ui/enrol": EnrolWorker @ Organization;
    "POST /ui/retire-worker": RetireWorker @ Organization;
    "POST /ui/restore-worker": RetireWorker @ Organization;
    "POST /ui/write-off-worker": RetireWorker @ Organization;
    "POST /ui/replace-worker": EnrolWorker @ Organization;
    "POST /ui/retire-member": RetireMember @ Organization;
    "POST /ui/restore-member": RetireMember @ Organization;
    "POST /ui/confirm-address": ConfirmAddress @ Organization;
    "POST /ui/retire-organization": RetireOrganization @ Consortium;
    "POST /ui/restore-organization": RetireOrganization @ Consortium;

    "POST /ui/set-budget": SetBudget @ Organization;
    "POST /ui/clear-freeze": ClearFreeze @ Organization;
    "POST /ui/set-approval-limit": SetApprovalLimit @ Organization;
    "POST /ui/withdraw-approval-limit": SetApprovalLimit @ Organization;

    "POST /ui/begin-draft": WriteDraft @ Consortium;
    "POST /ui/write-draft": WriteDraft @ Consortium;
    "POST /ui/delete-draft": WriteDraft @ Consortium;
    "POST /ui/propose-draft": WriteDraft @ Consortium && ProposeJob @ Consortium;
    "POST /ui/clone": WriteDraft @ Consortium;
    "POST /ui/retry": ProposeJob @ Consortium;
    "POST /ui/propose-again": ProposeJob @ Consortium;
    "POST /ui/approve": DecideJob @ Organization;
    "POST /ui/refuse": DecideJob @ Organization;
    "POST /ui/hold": HoldJob @ Organization;
    "POST /ui/release": HoldJob @ Organization;
    "POST /ui/leave": LeaveJob @ Organization;
    "POST /ui/pause": PauseJob @ Consortium, only "a researcher pauses jobs of their own";
    "POST /ui/resume": PauseJob @ Consortium, only "a researcher pauses jobs of their own";
    "POST /ui/cancel": CancelJob @ Consortium, only "a researcher ends jobs of their own";
    "POST /ui/weigh-dp-sgd": PlanJob @ Consortium;
    "POST /ui/weigh-active-learning": PlanJob @ Consortium;
    "POST /ui/weigh-transcription": PlanJob @ Consortium;
    "POST /ui/weigh-evaluation": PlanJob @ Consortium;
    "POST /ui/weigh-analytics": PlanJob @ Consortium;
    "POST /ui/draft-dp-sgd": WriteDraft @ Consortium;
    "POST /ui/draft-active-learning": WriteDraft @ Consortium;
    "POST /ui/draft-transcription": WriteDraft @ Consortium;
    "POST /ui/draft-evaluation": WriteDraft @ Consortium;
    "POST /ui/draft-analytics": WriteDraft @ Consortium;
    "POST /ui/propose-dp-sgd": ProposeJob @ Consortium;
    "POST /ui/rehearse-dp-sgd": ProposeJob @ Consortium;
    "POST /ui/propose-active-learning": ProposeJob @ Consortium;
    "POST /ui/propose-transcription": ProposeJob @ Consortium;
    "POST /ui/propose-evaluation": ProposeJob @ Consortium;
    "POST /ui/propose-analytics": ProposeJob @ Consortium;
    "POST /ui/delete-model": DeleteModel @ Consortium, only "an organization's admin deletes files that its worker stored";
    "GET /ui/watch": ReadJob @ Consortium;

    "GET /ui/turn": Annotate @ Consortium;
    "POST /ui/annotate": Annotate @ Consortium;
    "POST /ui/import-labels": ImportAnswers @ Consortium;
};

pub(super) const PAGES: &[MatrixRow] = table! {
    "/sign-in": ! "everybody";
    "/sign-in/code": ! "whoever has begun to sign in";
    "/reset/{secret}": ! "whoever bears the link";
    "/accept/{secret}": ! "whoever bears the link";

    "/": ListConsortia @ Server;
    "/found": ListConsortia @ Server;
    "/settings": ReadSelf @ Server;
    "/settings/security": EndSession @ Server;
    "/settings/accounts": ManageAccounts @ Server;
    "/settings/keys": ManageKeys @ Server;
    "/notifications": ReadNotifications @ Server;
    "/thresholds": ReadSelf @ Server;
    "/audit-log": ReadServerLog @ Server;

    "/c/{consortium}": ReadConsortium @ Consortium;
    "/c/{consortium}/organizations": ReadConsortium @ Consortium;
    "/c/{consortium}/organizations/{organization}": ReadConsortium @ Consortium;
    "/c/{consortium}/organizations/{organization}/audit-log": ReadOrganizationLog @ Organization;
    "/c/{consortium}/audit-log": ReadConsortiumLog @ Consortium;
    "/c/{consortium}/datasets": ReadDataset @ Consortium;
    "/c/{consortium}/datasets/{dataset}": ReadConsortium @ Consortium;
    "/c/{consortium}/ledger": ReadConsortium @ Consortium;
    "/c/{consortium}/ledger/{account}/{sequence}": ReadLedger @ Organization;

    "/c/{consortium}/plan": ReadConsortium @ Consortium;
    "/c/{consortium}/jobs": ReadJob @ Consortium;
    "/c/{consortium}/jobs/{job}": ReadJob @ Consortium;
    "/c/{consortium}/jobs/{job}/review/{dataset}": ReadJob @ Consortium;
    "/c/{consortium}/jobs/{job}/log": ReadJob @ Consortium;
    "/c/{consortium}/jobs/{job}/certificate": ReadJob @ Consortium;
    "/c/{consortium}/jobs/{job}/report": ReadJob @ Consortium;
    "/c/{consortium}/drafts/{draft}": WriteDraft @ Consortium;
    "/c/{consortium}/models": ReadJob @ Consortium;
    "/c/{consortium}/models/compare": ReadJob @ Consortium;
    "/c/{consortium}/models/{model}": ReadJob @ Consortium;
    "/c/{consortium}/models/{model}/compare/{other}": ReadJob @ Consortium;
    "/c/{consortium}/questions": FollowQuestions @ Consortium;
    "/c/{consortium}/questions/{job}": Annotate @ Consortium;
};
