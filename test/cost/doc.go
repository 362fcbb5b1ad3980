// Package cost counts what a run writes: transactions, and bytes. The counts are promised; how long they take is not measured here.
package cost
