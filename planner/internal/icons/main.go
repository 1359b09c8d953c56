// Command icons draws the planner's icons: a teal disc with a tick, as in the
// pages' own mark. It is run by hand when the mark changes:
//
//	go run ./planner/internal/icons planner/internal/web/static
package main

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
)

var (
	paper = color.NRGBA{0xfb, 0xfa, 0xf7, 0xff}
	teal  = color.NRGBA{0x0b, 0x6b, 0x64, 0xff}
	white = color.NRGBA{0xff, 0xff, 0xff, 0xff}
)

// icon is a drawing on a square of size 1.
type icon struct {
	name   string
	pixels int
	ground color.NRGBA // what is outside of the disc
	disc   float64     // its radius; 1 fills the square
	tick   float64     // the tick's scale
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: icons FOLDER")
		os.Exit(2)
	}
	for _, i := range []icon{
		{"icon-192.png", 192, color.NRGBA{}, .47, 1},
		{"icon-512.png", 512, color.NRGBA{}, .47, 1},
		// A maskable icon may lose all but the inner 80 %: the ground is the disc.
		{"icon-maskable-512.png", 512, teal, 1, .78},
		// iOS shows no transparency.
		{"apple-touch-icon.png", 180, paper, .42, .9},
	} {
		if err := i.write(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func (i icon) write(folder string) error {
	f, err := os.Create(filepath.Join(folder, i.name))
	if err != nil {
		return err
	}
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(f, i.draw()); err != nil {
		return err
	}
	return f.Close()
}

// draw samples each pixel at 16 points.
func (i icon) draw() image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, i.pixels, i.pixels))
	const n = 4
	for y := range i.pixels {
		for x := range i.pixels {
			var r, g, b, a float64
			for s := range n * n {
				c := i.at((float64(x)+(float64(s%n)+.5)/n)/float64(i.pixels), (float64(y)+(float64(s/n)+.5)/n)/float64(i.pixels))
				w := float64(c.A)
				r, g, b, a = r+float64(c.R)*w, g+float64(c.G)*w, b+float64(c.B)*w, a+w
			}
			if a > 0 {
				img.SetNRGBA(x, y, color.NRGBA{uint8(r/a + .5), uint8(g/a + .5), uint8(b/a + .5), uint8(a/(n*n) + .5)})
			}
		}
	}
	return img
}

func (i icon) at(x, y float64) color.NRGBA {
	// The tick, in the coordinates of the mark's 32 by 32.
	tx, ty := (x-.5)/i.tick*32+16, (y-.5)/i.tick*32+16
	half := 1.9
	if math.Min(segment(tx, ty, 9.6, 16.6, 14.1, 21), segment(tx, ty, 14.1, 21, 22.6, 11.5)) < half {
		return white
	}
	if math.Hypot(x-.5, y-.5) < i.disc {
		return teal
	}
	return i.ground
}

// segment is the distance of a point from a line between two points.
func segment(x, y, ax, ay, bx, by float64) float64 {
	dx, dy := bx-ax, by-ay
	t := math.Max(0, math.Min(1, ((x-ax)*dx+(y-ay)*dy)/(dx*dx+dy*dy)))
	return math.Hypot(x-ax-t*dx, y-ay-t*dy)
}
