// Package architecture keeps the imports of the house a staircase. It has tests only.
package architecture
