package v1alpha1

// Condition types. Each kind's status lists those it uses.
const (
	// ConditionReady is True on a definition whose newest edit compiled.
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
)

// Reasons of a run that goes on.
const (
	// ReasonDefinitionNotReady surfaces when a run is queued because its definition is missing or has not compiled yet,
	// and as an error when that lasts longer than 120 seconds. Apply or correct the definition.
	ReasonDefinitionNotReady = "DefinitionNotReady"
	// ReasonInputNotReady surfaces when a run is queued because spec.input.from names a ConfigMap or key that does not exist,
	// and as an error when that lasts longer than 120 seconds. Apply the ConfigMap.
	ReasonInputNotReady = "InputNotReady"
	// ReasonAdmitted surfaces on Accepted when the run is admitted.
	ReasonAdmitted = "Admitted"
	// ReasonStarting surfaces when a segment's pod has been asked for and has not begun.
	ReasonStarting = "Starting"
	// ReasonRunning surfaces when a segment works on the run.
	ReasonRunning = "Running"
	// ReasonBackingOff surfaces when the run pauses before the next attempt at a segment.
	ReasonBackingOff = "BackingOff"
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
	// ReasonPodNotStarted surfaces when a segment's pod did not start within 300 seconds; the message carries what the
	// cluster says about it. Look for missing images, quotas, node capacity and Pod Security, then start another run.
	ReasonPodNotStarted = "PodNotStarted"
	// ReasonPoisonSegment surfaces when one segment crashed its pod as often as retry.maxAttempts allows.
	// Read the logs of its last pod: memory limits are the usual cause.
	ReasonPoisonSegment = "PoisonSegment"
	// ReasonSecretMissing surfaces when the Secret of the model endpoint, or its key, does not exist. Create it and start another run.
	ReasonSecretMissing = "SecretMissing"
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
	// ReasonUnknownTool surfaces when the model called a tool that it was not offered.
	// Mention no tools in the instructions that the agent does not have.
	ReasonUnknownTool = "UnknownTool"
	// ReasonEgressRefused surfaces when the model endpoint's address is in a private range that spec.egress.allow does not list.
	// List the range in the ModelEndpoint if runs may dial it.
	ReasonEgressRefused = "EgressRefused"
	// ReasonIncompatibleSession surfaces when the stored run was written by a version this one cannot read.
	// Install the version that wrote it, or start another run.
	ReasonIncompatibleSession = "IncompatibleSession"
	// ReasonLedgerRolledBack surfaces when the run was admitted and Postgres no longer knows it, because it was restored from a
	// backup or replaced. Nothing is done twice; start another run if the task still stands.
	ReasonLedgerRolledBack = "LedgerRolledBack"
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

// Finalizer is held by a run until it has stopped.
const Finalizer = "ekiden.dev/stop"
