# needs: ffmpeg
# package: ffmpeg
# time: 200
# when: all
ffmpeg -v error -nostdin -f lavfi -i testsrc=duration=1:size=160x120:rate=10 -f lavfi -i sine=440:duration=1 -threads 1 -bitexact -c:v mpeg4 -c:a aac a.mkv; echo "status $?"
ffmpeg -v error -nostdin -i a.mkv -vf scale=80:60,hflip -af atempo=1.5 -bitexact -f framemd5 - | md5sum
ffmpeg -v error -nostdin -f lavfi -i mandelbrot=size=64x48:rate=5 -t 1 -threads 2 -bitexact -f framemd5 - | md5sum
ffmpeg -v error -nostdin -i none -f null -; echo "status $?"
