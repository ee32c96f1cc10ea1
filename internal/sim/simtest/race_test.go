//go:build race

package simtest_test

const raceDetector = true
