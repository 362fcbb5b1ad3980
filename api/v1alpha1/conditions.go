package v1alpha1

// Condition types. Each kind's status lists those it uses.
const (
	// ConditionReady is True on a definition whose newest edit compiled, on a tool server whose tools are known, and on a
	// policy that is in force.
	ConditionReady = "Ready"

	// ConditionAccepted is True on a run once it is admitted: its snapshot is frozen and it will be carried out.
	// Unknown while it is queued, False when it was refused.
	ConditionAccepted = "Accepted"
	// ConditionSucceeded is Unknown on a run while it goes on, then True or False. Its reason is the state to show people.
	ConditionSucceeded = "Succeeded"
	// ConditionFinished is True on a run that has ended in any way, so that one kubectl wait covers all ends.
	ConditionFinished = "Finished"
	// ConditionCancelRequested is True on a run from the moment at which nothing new begins any more, because the
	// cancel is committed in the ledger.
	ConditionCancelRequested = "CancelRequested"

	// ConditionDecided is Unknown on a request while it is open, True once its decision was taken up, False if there will be none.
	ConditionDecided = "Decided"
	// ConditionApprovalsGuarded is False on a request whose decision is not honoured, because the admission policies that
	// say who may decide are not in force as they should be.
	ConditionApprovalsGuarded = "ApprovalsGuarded"
)

// Reasons of the condition Ready.
const (
	// ReasonCompiled surfaces when the newest edit of a definition compiled and its revision is current.
	ReasonCompiled = "Compiled"
	// ReasonModelEndpointNotFound surfaces when spec.modelRef names no ModelEndpoint of the namespace. Apply it, and the definition compiles.
	ReasonModelEndpointNotFound = "ModelEndpointNotFound"
	// ReasonInvalid surfaces when the definition cannot be carried out as written; the message names the field.
	// Correct it; runs use the last revision that compiled meanwhile.
	ReasonInvalid = "Invalid"
	// ReasonToolServerNotFound surfaces when spec.tools names no ToolServer of the namespace. Apply it, and the definition compiles.
	ReasonToolServerNotFound = "ToolServerNotFound"
	// ReasonToolServerNotReady surfaces when the tools of a ToolServer are not known yet; the message says why.
	// The definition compiles by itself once they are.
	ReasonToolServerNotReady = "ToolServerNotReady"
	// ReasonToolNotFound surfaces when a ToolServer does not offer a tool that spec.tools names. Correct the name, or
	// change spec.release of the ToolServer to have its tools discovered again.
	ReasonToolNotFound = "ToolNotFound"
	// ReasonToolNameTaken surfaces when two tools would have the same name for the model. Rename one with as in its ToolServer.
	ReasonToolNameTaken = "ToolNameTaken"
)

// Reasons of the condition Ready of tool servers and policies.
const (
	// ReasonDiscovering surfaces while a Job asks a tool server for its tools.
	ReasonDiscovering = "Discovering"
	// ReasonDiscovered surfaces when the tools of a server are known.
	ReasonDiscovered = "Discovered"
	// ReasonDiscoveryFailed surfaces when a tool server could not be asked for its tools; the message says why. It is asked
	// again after some minutes, and at once when its spec changes.
	ReasonDiscoveryFailed = "DiscoveryFailed"
	// ReasonInForce surfaces when a policy reaches every call that begins from now on.
	ReasonInForce = "InForce"
)

// Reasons of an approval request.
const (
	// ReasonAwaitingDecision surfaces while a request is open.
	ReasonAwaitingDecision = "AwaitingDecision"
	// ReasonApproved surfaces when a request was approved.
	ReasonApproved = "Approved"
	// ReasonDenied surfaces when a request was denied.
	ReasonDenied = "Denied"
	// ReasonHappened surfaces when somebody said that a call whose outcome was unknown took effect.
	ReasonHappened = "Happened"
	// ReasonNotHappened surfaces when somebody said that a call whose outcome was unknown did not take effect.
	ReasonNotHappened = "NotHappened"
	// ReasonRetry surfaces when somebody said that a call whose outcome was unknown is to be made again.
	ReasonRetry = "Retry"
	// ReasonExpired surfaces when nobody decided in time. The model is told, and may propose the call again.
	ReasonExpired = "Expired"
	// ReasonTooLate surfaces when a decision came after the request had expired. It is worth nothing; a new request comes
	// if the model proposes the call again.
	ReasonTooLate = "TooLate"
	// ReasonWithdrawn surfaces when the question no longer stands: the call was settled or refused, or the run has ended.
	ReasonWithdrawn = "Withdrawn"
	// ReasonSamePerson surfaces when somebody who has approved a call already decided on another seat of it. The decision
	// is void, and a new request asks somebody else.
	ReasonSamePerson = "SamePerson"
	// ReasonGuarded surfaces when the admission policies that guard decisions are in force.
	ReasonGuarded = "Guarded"
	// ReasonNotGuarded surfaces when a decision is not honoured because the admission policies that guard decisions are
	// missing or changed, and when a request is withdrawn because they were. Apply config/admission again: the decision is
	// void, and a new request comes by itself.
	ReasonNotGuarded = "NotGuarded"
)

// Reasons of a run that goes on.
const (
	// ReasonDefinitionNotReady surfaces when a run is queued because its definition is missing or has not compiled yet, or because
	// a ModelEndpoint or ToolServer of its revision is gone, leads elsewhere than before or declares a tool otherwise; and as an error when that lasts
	// longer than 120 seconds. Apply or correct the definition.
	ReasonDefinitionNotReady = "DefinitionNotReady"
	// ReasonInputNotReady surfaces when a run is queued because spec.input.from names a ConfigMap or key that does not exist,
	// and as an error when that lasts longer than 120 seconds. Apply the ConfigMap.
	ReasonInputNotReady = "InputNotReady"
	// ReasonAdmitted surfaces on Accepted when the run is admitted.
	ReasonAdmitted = "Admitted"
	// ReasonStarting surfaces when a segment's pod has been asked for and has not begun.
	ReasonStarting = "Starting"
	// ReasonPodQueued surfaces when a segment's pod is held back by a queue such as Kueue: its Job is suspended, or the pod waits
	// behind a scheduling gate. No time counts meanwhile. If the queue does not exist, correct its name and delete the Job.
	ReasonPodQueued = "PodQueued"
	// ReasonRunning surfaces when a segment works on the run.
	ReasonRunning = "Running"
	// ReasonBackingOff surfaces when the run pauses before the next attempt at a segment.
	ReasonBackingOff = "BackingOff"
	// ReasonAwaitingApproval surfaces when people have to decide on calls of the run. status.waitingOn names the requests.
	ReasonAwaitingApproval = "AwaitingApproval"
	// ReasonCancelling surfaces when the run is to be cancelled and its segment has not stopped yet.
	ReasonCancelling = "Cancelling"
)

// Reasons of a run that has ended well or was ended.
const (
	// ReasonCompleted surfaces when the agent gave its answer.
	ReasonCompleted = "Completed"
	// ReasonLimitReached surfaces when a limit ended the run: with a partial result after the first model turn, as an error before it.
	// Raise the limit in the definition, in the run or in the policy that clips it.
	ReasonLimitReached = "LimitReached"
	// ReasonCancelled surfaces when the run was cancelled or deleted.
	ReasonCancelled = "Cancelled"
)

// Error codes: reasons of a run that failed.
const (
	// ReasonDuplicate surfaces when another run of the namespace holds the same idempotencyKey. Look at the run that
	// status.duplicateOf names.
	ReasonDuplicate = "Duplicate"
	// ReasonInputInvalid surfaces when the input is too large or not valid; the message says which bound it breaks.
	// Start another run with a smaller or corrected input.
	ReasonInputInvalid = "InputInvalid"
	// ReasonNameTaken surfaces when an object that the run needs exists under the run's name for it and belongs to somebody else.
	// Remove that object, or start the run under another name.
	ReasonNameTaken = "NameTaken"
	// ReasonPodNotStarted surfaces when a segment's pod, or one that asks a tool server, did not start within 300 seconds, or the API server
	// refused its Job for as long; the message carries what the cluster says about it. Look for missing images, quotas, node capacity and Pod Security, then start another run.
	ReasonPodNotStarted = "PodNotStarted"
	// ReasonApprovalNotAsked surfaces when a call needs an approval and the API server refused the request for it until the time to
	// decide was over; the message carries what it said. Look for quotas and admission policies, then start another run.
	ReasonApprovalNotAsked = "ApprovalNotAsked"
	// ReasonPoisonSegment surfaces when one segment crashed its pod as often as retry.maxAttempts allows.
	// Read the logs of its last pod: memory limits are the usual cause, and spec.pods.resources of the AgentPolicy raises them.
	ReasonPoisonSegment = "PoisonSegment"
	// ReasonSecretMissing surfaces when the Secret of the model endpoint or of a tool server, or its key, does not exist. Create it and start another run.
	ReasonSecretMissing = "SecretMissing"
	// ReasonCABundleMissing surfaces when the ConfigMap that spec.tls of the model endpoint or of a tool server names, or its key, does not
	// exist or holds no certificate in PEM. Correct it and start another run.
	ReasonCABundleMissing = "CABundleMissing"
	// ReasonCredentialsRefused surfaces when the model endpoint answered 401 or 403; exactly one request was made.
	// Correct the key in the Secret and start another run.
	ReasonCredentialsRefused = "CredentialsRefused"
	// ReasonRequestRefused surfaces when the model endpoint refused the request for good, such as with 400 or 404.
	// Check url and model of the ModelEndpoint, and the sampling of the definition.
	ReasonRequestRefused = "RequestRefused"
	// ReasonContextOverflow surfaces when the conversation no longer fits the model's context window.
	// Shorten the task or the instructions, or choose a model with a larger window.
	ReasonContextOverflow = "ContextOverflow"
	// ReasonQuotaExhausted surfaces when the model endpoint asked for a longer pause than retry.maxRetryAfterSeconds.
	// Raise the quota at the provider or that bound in the definition.
	ReasonQuotaExhausted = "QuotaExhausted"
	// ReasonModelUnavailable surfaces when a model call failed as often as retry.maxAttempts allows.
	// The message tells the last failure. Start another run once the endpoint answers.
	ReasonModelUnavailable = "ModelUnavailable"
	// ReasonModelRefused surfaces when the model, or a filter before it, declined to answer.
	// Reword the task or the instructions.
	ReasonModelRefused = "ModelRefused"
	// ReasonEmptyAnswer surfaces when the model ended its turn with neither text nor calls.
	// Raise sampling.maxOutputTokens if it used them up, else reword the instructions.
	ReasonEmptyAnswer = "EmptyAnswer"
	// ReasonUnknownTool surfaces when the model called a tool that it was not offered. Nothing of that turn was called.
	// Mention no tools in the instructions that the agent does not have.
	ReasonUnknownTool = "UnknownTool"
	// ReasonToolFailed surfaces when a tool answered that it has failed and the definition says onToolFailure: FailRun.
	// The message says which; start another run once it works.
	ReasonToolFailed = "ToolFailed"
	// ReasonCallIndeterminate surfaces when nobody knows whether a call took effect and the definition says onIndeterminate: FailRun.
	// Find out what the call has done before you start another run.
	ReasonCallIndeterminate = "CallIndeterminate"
	// ReasonContractChanged surfaces when a tool server no longer offers a tool as it was when the run started. Change
	// spec.release of the ToolServer to have its tools discovered again, then start another run.
	ReasonContractChanged = "ContractChanged"
	// ReasonEgressRefused surfaces when the address of the model endpoint or of its proxy is in a private range that spec.egress.allow does not list.
	// List the range in the ModelEndpoint if runs may dial it.
	ReasonEgressRefused = "EgressRefused"
	// ReasonIncompatibleSession surfaces when the stored run was written by a version this one cannot read.
	// Install the version that wrote it, or start another run.
	ReasonIncompatibleSession = "IncompatibleSession"
	// ReasonLedgerUnreachable surfaces when segments could not reach Postgres, or were refused by it, for 15 minutes on end
	// while the manager could. Correct the manager's flag --segment-postgres-address and the network policies between the
	// namespace and Postgres, then start another run.
	ReasonLedgerUnreachable = "LedgerUnreachable"
	// ReasonLedgerRolledBack surfaces when Postgres knows less of the run than was known before, because it was restored from a
	// backup or replaced. Nothing is done twice; start another run if the task still stands.
	ReasonLedgerRolledBack = "LedgerRolledBack"
	// ReasonRestored surfaces when the object of the run was restored from a backup, or copied from that of another run. What that
	// run did is not done again; to do the task anew, create a run without the annotation ekiden.dev/run-uid.
	ReasonRestored = "Restored"
)

// Labels on Jobs and Pods. Selectors use UIDs, never names: a name may be longer than a label's value.
const (
	// LabelRunUID is the UID of the run an object works for.
	LabelRunUID = "ekiden.dev/run-uid"
	// LabelRootUID is the UID of the run at the top of its tree.
	LabelRootUID = "ekiden.dev/root-uid"
	// LabelSegment is the number of the segment a Job executes.
	LabelSegment = "ekiden.dev/segment"
	// LabelAttempt is the number of the attempt at that segment.
	LabelAttempt = "ekiden.dev/attempt"
)

// AnnotationRunUID is on a run, and holds its UID. An object that is restored from a backup has another UID and the same annotation.
const AnnotationRunUID = "ekiden.dev/run-uid"

// Finalizer is held by a run until it has stopped.
const Finalizer = "ekiden.dev/stop"
