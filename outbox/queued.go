package outbox

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"strings"
)

//go:embed queued.html
var queuedHTML string

var queuedTemplate = template.Must(template.New("queued").Parse(queuedHTML))

// The languages of the built-in page; the first is for everybody else.
var languages = []string{"en", "ru"}

type queuedText struct{ Lang, Title, Head, Text, Back, Prefix string }

var queuedTexts = map[string]queuedText{
	"en": {
		Title: "Saved on this device",
		Head:  "Saved on this device",
		Text:  "It is waiting for the network and will be sent by itself. You can go on, or close this page.",
		Back:  "Back",
	},
	"ru": {
		Title: "Сохранено на этом устройстве",
		Head:  "Сохранено на этом устройстве",
		Text:  "Изменение ждёт сети и отправится само. Можно вернуться к делам или закрыть страницу.",
		Back:  "Назад",
	},
}

// queuedAsset makes the page ready in one language. Its style stands inside, by
// hash, because a worker shows the page when nothing can be loaded.
func queuedAsset(prefix, lang string) asset {
	text := queuedTexts[lang]
	text.Lang, text.Prefix = lang, prefix
	var buf bytes.Buffer
	if err := queuedTemplate.Execute(&buf, text); err != nil {
		panic(err) // a template of our own with strings
	}
	page := buf.String()
	_, style, _ := strings.Cut(page, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	sum := sha256.Sum256([]byte(style))
	policy := fmt.Sprintf(queuedPolicy, base64.StdEncoding.EncodeToString(sum[:]))
	return newAsset([]byte(page), "text/html; charset=utf-8", policy).
		with("Content-Language", lang).
		with("Referrer-Policy", "same-origin")
}

// language chooses by Accept-Language (RFC 9110 section 12.5.4): the language
// with the greatest weight, of equal ones the first that is named.
func language(accept string) string {
	best, at := languages[0], 0
	for member := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(member, ";")
		primary, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(name)), "-")
		for _, lang := range languages {
			if q := weight(params); primary == lang && q > at {
				best, at = lang, q
			}
		}
	}
	return best
}
