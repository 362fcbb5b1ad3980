// Package crew does many things, some of them at once.
package crew

import (
	"context"
	"sync"
)

// Do does jobs 0 to n-1, so many at once, and returns the first error. After one no other job begins.
func Do(ctx context.Context, parallel, n int, job func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs := make(chan int, n)
	for i := range n {
		jobs <- i
	}
	close(jobs)
	var crew sync.WaitGroup
	for range parallel {
		crew.Go(func() {
			for i := range jobs {
				if ctx.Err() != nil {
					return
				}
				if err := job(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	crew.Wait()
	return context.Cause(ctx)
}
