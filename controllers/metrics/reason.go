package metrics

import (
	"slices"

	"github.com/ekiden-dev/ekiden/api/v1alpha1"
)

// other stands for every code that is not one of ours. Codes come from segments, and so from whoever runs in a tenant's pod.
const other = "Other"

// codes are the codes with which a run fails.
var codes = []string{
	v1alpha1.ReasonDefinitionNotReady,
	v1alpha1.ReasonInputNotReady,
	v1alpha1.ReasonLimitReached,

	v1alpha1.ReasonDuplicate,
	v1alpha1.ReasonInputInvalid,
	v1alpha1.ReasonNameTaken,
	v1alpha1.ReasonPodNotStarted,
	v1alpha1.ReasonApprovalNotAsked,
	v1alpha1.ReasonPoisonSegment,
	v1alpha1.ReasonSecretMissing,
	v1alpha1.ReasonCABundleMissing,
	v1alpha1.ReasonCredentialsRefused,
	v1alpha1.ReasonRequestRefused,
	v1alpha1.ReasonContextOverflow,
	v1alpha1.ReasonQuotaExhausted,
	v1alpha1.ReasonModelUnavailable,
	v1alpha1.ReasonModelRefused,
	v1alpha1.ReasonEmptyAnswer,
	v1alpha1.ReasonUnknownTool,
	v1alpha1.ReasonToolFailed,
	v1alpha1.ReasonCallIndeterminate,
	v1alpha1.ReasonContractChanged,
	v1alpha1.ReasonEgressRefused,
	v1alpha1.ReasonIncompatibleSession,
	v1alpha1.ReasonLedgerUnreachable,
	v1alpha1.ReasonLedgerRolledBack,
	v1alpha1.ReasonRestored,
}

// reasonOf is the label of a run's end, out of a closed set.
func reasonOf(s v1alpha1.AgentRunStatus) string {
	switch code := s.Error.Code; {
	case code == "":
		return string(s.Phase)
	case slices.Contains(codes, code):
		return code
	default:
		return other
	}
}
