// Package nodeagents holds what the agents of many nodes ask of one API server.
package nodeagents
