// A loop of two instructions an iteration.
TEXT ·Loop(SB), 4, $0-8
	MOVD iterations+0(FP), R0
again:
	SUBS $1, R0, R0
	BNE  again
	RET
