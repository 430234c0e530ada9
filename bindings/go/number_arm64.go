package truecount

const perfEventOpen = 241
