// Command app is all there is in the image of the tests with a real container runtime: it
// prints its environment and waits. With -pause it only waits; with -stubborn it lets a
// request to end pass for a while.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	requests := make(chan os.Signal, 1)
	signal.Notify(requests, syscall.SIGTERM, syscall.SIGINT)
	if !slices.Contains(os.Args, "-pause") {
		for _, variable := range os.Environ() {
			if strings.HasPrefix(variable, "DEVICE_") || strings.HasPrefix(variable, "PLUGIN_") {
				fmt.Println(variable)
			}
		}
		fmt.Println("READY=1")
	}
	<-requests
	if slices.Contains(os.Args, "-stubborn") {
		<-time.After(20 * time.Second)
	}
}
