package main

import "github.com/ekiden-dev/ekiden/api/v1alpha1"

// remedies tells what to do about a run that failed, by its code. The words are those of docs/reference/reasons.md; a
// test compares them.
var remedies = map[string]string{
	v1alpha1.ReasonDefinitionNotReady:  "Apply or correct the definition.",
	v1alpha1.ReasonInputNotReady:       "Apply the ConfigMap.",
	v1alpha1.ReasonLimitReached:        "Raise the limit in the definition, in the run or in the policy that clips it.",
	v1alpha1.ReasonDuplicate:           "Look at the run that status.duplicateOf names.",
	v1alpha1.ReasonInputInvalid:        "Start another run with a smaller or corrected input.",
	v1alpha1.ReasonNameTaken:           "Remove that object, or start the run under another name.",
	v1alpha1.ReasonApprovalNotAsked:    "Look for quotas and admission policies, then start another run.",
	v1alpha1.ReasonPodNotStarted:       "Look for missing images, quotas, node capacity and Pod Security, then start another run.",
	v1alpha1.ReasonPoisonSegment:       "Read the logs of its last pod: memory limits are the usual cause, and spec.pods.resources of the AgentPolicy raises them.",
	v1alpha1.ReasonSecretMissing:       "Create it and start another run.",
	v1alpha1.ReasonCABundleMissing:     "Correct it and start another run.",
	v1alpha1.ReasonCredentialsRefused:  "Correct the key in the Secret and start another run.",
	v1alpha1.ReasonRequestRefused:      "Check url and model of the ModelEndpoint, and the sampling of the definition.",
	v1alpha1.ReasonContextOverflow:     "Shorten the task or the instructions, or choose a model with a larger window.",
	v1alpha1.ReasonQuotaExhausted:      "Raise the quota at the provider or that bound in the definition.",
	v1alpha1.ReasonModelUnavailable:    "The message tells the last failure. Start another run once the endpoint answers.",
	v1alpha1.ReasonModelRefused:        "Reword the task or the instructions.",
	v1alpha1.ReasonEmptyAnswer:         "Raise sampling.maxOutputTokens if it used them up, else reword the instructions.",
	v1alpha1.ReasonUnknownTool:         "Nothing of that turn was called. Mention no tools in the instructions that the agent does not have.",
	v1alpha1.ReasonToolFailed:          "The message says which; start another run once it works.",
	v1alpha1.ReasonCallIndeterminate:   "Find out what the call has done before you start another run.",
	v1alpha1.ReasonContractChanged:     "Change spec.release of the ToolServer to have its tools discovered again, then start another run.",
	v1alpha1.ReasonEgressRefused:       "List the range in the ModelEndpoint if runs may dial it.",
	v1alpha1.ReasonIncompatibleSession: "Install the version that wrote it, or start another run.",
	v1alpha1.ReasonLedgerUnreachable:   "Correct the manager's flag --segment-postgres-address and the network policies between the namespace and Postgres, then start another run.",
	v1alpha1.ReasonLedgerRolledBack:    "Nothing is done twice; start another run if the task still stands.",
	v1alpha1.ReasonRestored:            "What that run did is not done again; to do the task anew, create a run without the annotation ekiden.dev/run-uid.",

	// What a run waits for, or was refused: reasons of definitions, tool servers and approval requests.
	v1alpha1.ReasonPodQueued:          "No time counts meanwhile. If the queue does not exist, correct its name and delete the Job.",
	v1alpha1.ReasonToolServerNotFound: "Apply it, and the definition compiles.",
	v1alpha1.ReasonToolServerNotReady: "The definition compiles by itself once they are.",
	v1alpha1.ReasonToolNotFound:       "Correct the name, or change spec.release of the ToolServer to have its tools discovered again.",
	v1alpha1.ReasonToolNameTaken:      "Rename one with as in its ToolServer.",
	v1alpha1.ReasonDiscoveryFailed:    "It is asked again after some minutes, and at once when its spec changes.",
	v1alpha1.ReasonExpired:            "The model is told, and may propose the call again.",
	v1alpha1.ReasonTooLate:            "It is worth nothing; a new request comes if the model proposes the call again.",
	v1alpha1.ReasonSamePerson:         "The decision is void, and a new request asks somebody else.",
	v1alpha1.ReasonNotGuarded:         "Apply config/admission again: the decision is void, and a new request comes by itself.",
}
