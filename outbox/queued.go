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

type queuedText struct {
	Lang, Title, Head, Text, Back string
	Script                        template.JS
}

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

// queuedAsset makes the page ready in one language. Its style and its script stand
// inside, allowed by hash, because a worker shows the page when nothing can be
// loaded.
func queuedAsset(lang string) asset {
	text := queuedTexts[lang]
	text.Lang, text.Script = lang, template.JS(shipped()["queued.js"].body)
	var buf bytes.Buffer
	if err := queuedTemplate.Execute(&buf, text); err != nil {
		panic(err) // a template of our own
	}
	page := buf.String()
	policy := fmt.Sprintf(queuedPolicy, hashOf(page, `<script type="module">`, "</script>"), hashOf(page, "<style>", "</style>"))
	return newAsset([]byte(page), "text/html; charset=utf-8", policy).
		with("Content-Language", lang).
		with("Referrer-Policy", "same-origin")
}

// hashOf is an inline element's hash, as a policy names it (CSP level 3, section
// 2.3.1).
func hashOf(page, start, end string) string {
	_, text, _ := strings.Cut(page, start)
	text, _, _ = strings.Cut(text, end)
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
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
