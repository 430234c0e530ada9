# needs: nginx curl
# package: nginx-light curl
# ignore: .
mkdir -p www logs; echo hello > www/a; head -c 300000 /dev/zero | tr '\0' y > www/big; chmod -R a+rX . ..
cat > c <<X
user root; worker_processes 2; daemon off; pid $PWD/pid; error_log $PWD/log; events { worker_connections 64; }
http { access_log off; client_body_temp_path $PWD/t; proxy_temp_path $PWD/p; fastcgi_temp_path $PWD/f; uwsgi_temp_path $PWD/u;
 scgi_temp_path $PWD/g; gzip on; gzip_types text/plain; default_type text/plain;
 server { listen unix:$PWD/s; root $PWD/www; location /r { return 302 /a; } location /p { proxy_pass http://unix:$PWD/s:/a; } } }
X
nginx -p "$PWD" -e "$PWD/log" -c "$PWD/c" & n=$!
for i in $(seq 600); do curl -s --unix-socket s http://x/a >/dev/null && break; sleep 0.1; done
curl -s --unix-socket s http://x/a; curl -s --unix-socket s http://x/big | md5sum
curl -s --compressed --unix-socket s http://x/big | md5sum; curl -s -o /dev/null -w '%{http_code}\n' --unix-socket s http://x/none
curl -s -L --unix-socket s http://x/r; curl -s --unix-socket s http://x/p
for i in $(seq 30); do curl -s --unix-socket s http://x/a; done | sort | uniq -c
kill -HUP $n; sleep 0.3; curl -s --unix-socket s http://x/a; kill -QUIT $n; wait $n; echo "status $?"
