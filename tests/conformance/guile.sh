# needs: guile
# package: guile-3.0
export GUILE_AUTO_COMPILE=0
guile -c '(use-modules (ice-9 threads) (srfi srfi-1))
(display (apply + (iota 10000))) (newline)
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (display (fib 20)) (newline)
(display (par-map (lambda (x) (* x x)) (iota 8))) (newline)
(display (call/cc (lambda (k) (for-each (lambda (x) (if (> x 3) (k x))) (iota 9)) 0))) (newline)
(display (catch #t (lambda () (/ 1 0)) (lambda (k . r) k))) (newline) (exit 3)'; echo "status $?"
