package lua

import (
	"encoding/binary"
	"math/bits"
)

// SHA1 returns the SHA-1 digest of a text, by which servers name scripts, and scripts name texts: no cryptography. The
// standard library's panics where GODEBUG=fips140=only is set, and Go 1.25 has no way around that.
func SHA1(text string) (sum [20]byte) {
	h := [5]uint32{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}
	size, marked := uint64(len(text)), false
	for over := false; !over; {
		var block [64]byte
		n := copy(block[:], text)
		text = text[n:]
		if n < len(block) && !marked { // a bit ends the text
			block[n], marked = 0x80, true
			n++
		}
		if over = marked && n <= 56; over {
			binary.BigEndian.PutUint64(block[56:], 8*size)
		}
		var w [80]uint32
		a, b, c, d, e := h[0], h[1], h[2], h[3], h[4]
		for i := range w {
			if i < 16 {
				w[i] = binary.BigEndian.Uint32(block[4*i:])
			} else {
				w[i] = bits.RotateLeft32(w[i-3]^w[i-8]^w[i-14]^w[i-16], 1)
			}
			f := b ^ c ^ d
			switch i / 20 {
			case 0:
				f = b&c | ^b&d
			case 2:
				f = b&c | b&d | c&d
			}
			k := [...]uint32{0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6}[i/20]
			a, b, c, d, e = bits.RotateLeft32(a, 5)+f+e+k+w[i], a, bits.RotateLeft32(b, 30), c, d
		}
		for i, v := range [...]uint32{a, b, c, d, e} {
			h[i] += v
		}
	}
	for i, v := range h {
		binary.BigEndian.PutUint32(sum[4*i:], v)
	}
	return sum
}
