// A loop of two instructions an iteration.
TEXT ·Loop(SB), 4, $0-8
	MOVQ iterations+0(FP), AX
again:
	DECQ AX
	JNZ  again
	RET
