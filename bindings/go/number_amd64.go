package truecount

const perfEventOpen = 298
