package lint

import "iter"

// inOrder yields work(item) for every item, in the order of the items, while up to
// workers of them are worked on at once. It takes no more than a few items ahead.
func inOrder[In, Out any](items iter.Seq[In], workers int, work func(In) Out) iter.Seq[Out] {
	return func(yield func(Out) bool) {
		results := make(chan chan Out, 2*workers)
		stop := make(chan struct{})
		go func() {
			defer close(results)
			busy := make(chan struct{}, workers)
			for item := range items {
				select {
				case busy <- struct{}{}:
				case <-stop:
					return
				}
				result := make(chan Out, 1)
				go func() {
					result <- work(item)
					<-busy
				}()
				select {
				case results <- result:
				case <-stop:
					return
				}
			}
		}()
		defer close(stop)
		for result := range results {
			if !yield(<-result) {
				return
			}
		}
	}
}
