module truecount

go 1.21
