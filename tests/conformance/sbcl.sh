# needs: sbcl
# package: sbcl
cat > a.lisp <<'X'
(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(compile 'fib)
(print (fib 22))
(print (loop for i below 100000 sum (mod (* i i) 7)))
(print (handler-case (/ 1 (- 1 1)) (division-by-zero () :zero)))
(print (handler-case (car (list 1 2)) (error (e) e)))
(print (handler-case (funcall (compile nil '(lambda (x) (declare (optimize safety)) (car x))) 5) (type-error () :type)))
(dotimes (i 30) (setf (symbol-function 'g) (compile nil `(lambda (x) (+ x ,i)))) (assert (= (funcall 'g 1) (+ 1 i))))
(gc :full t)
(print (let ((s 0)) (dotimes (i 300) (incf s (length (make-array 10000)))) s))
(print (handler-case (labels ((deep (n) (+ 1 (deep (+ n 1))))) (deep 0)) (storage-condition () :exhausted)))
(terpri)
(sb-ext:exit :code 3)
X
sbcl --noinform --no-userinit --script a.lisp 2>/dev/null; echo "status $?"
