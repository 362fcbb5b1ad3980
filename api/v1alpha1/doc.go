// Package v1alpha1 is the vocabulary of the API: the kinds of ekiden.dev, and the
// constants that name their states. Nothing in it runs.
//
// +kubebuilder:object:generate=true
// +groupName=ekiden.dev
package v1alpha1
