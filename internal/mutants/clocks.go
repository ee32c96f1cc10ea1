package main

// inClocks are clocks that are believed, or not, for the wrong reasons.
var inClocks = []mutant{
	{
		name: "a node whose clock was set forward has forgotten nothing", test: "TestAClockThatIsSetRightMakesNoNodeOld",
		why: "nothing is promised where a clock is set forward", changes: []change{{
			"guard.go", `case was.leap != (leap{}) && !noted:`, `case false:`,
		}},
	},
	{
		name: "a pause of our own machine taken for a leap of the nodes' clocks", test: "TestLeaps",
		why: "virtual time goes on for all", changes: []change{{
			"fence.go", `if read < majority(len(f.offsets)) {`, `if false {`,
		}},
	},
	{
		name: "the clocks are read until a leap can be judged", test: "TestALeapThatCannotBeJudgedIsLeftForLater",
		why: "a majority must be away when a clock is set", changes: []change{{
			"fence.go", `found = found || o.leapt == f.readings`, `found = true`,
		}},
	},
}
