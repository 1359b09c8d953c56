package outbox

import (
	"bytes"
	"cmp"
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

// QueuedText is what the page that a plain form lands on while its request waits
// says in one language. What is empty is English.
type QueuedText struct {
	// Title is its heading too.
	Title, Text string
	// Back names the link to where the form was; Away is said in Text's place when
	// it is pressed and that page cannot be loaded.
	Back, Away string
	// RightToLeft is how the language is written.
	RightToLeft bool
}

// defaultLanguage is for everybody whose language is not among the texts.
const defaultLanguage = "en"

var queuedTexts = map[string]QueuedText{
	defaultLanguage: {
		Title: "Saved on this device",
		Text:  "The server has not answered yet; it will be sent by itself. This page goes back once it can. You may close it.",
		Back:  "Back",
		Away:  "The page before does not answer yet. It opens here by itself as soon as it does; you may close this one, nothing is lost.",
	},
	"ru": {
		Title: "Сохранено на этом устройстве",
		Text:  "Сервер пока не ответил, изменение отправится само. Эта страница вернётся назад, как только сможет. Её можно закрыть.",
		Back:  "Назад",
		Away:  "Прежняя страница пока не отвечает. Она откроется здесь сама, как только ответит; эту можно закрыть, ничего не потеряется.",
	},
}

// queuedAsset makes the page ready in one language. Its style and its script stand
// inside, allowed by hash, because a worker shows the page when nothing can be
// loaded.
func queuedAsset(lang string, text QueuedText) asset {
	fallback := queuedTexts[defaultLanguage]
	page := struct {
		QueuedText
		Lang   string
		Script template.JS
	}{text, lang, template.JS(shipped()["queued.js"].body)}
	page.Title, page.Text, page.Back = cmp.Or(text.Title, fallback.Title), cmp.Or(text.Text, fallback.Text), cmp.Or(text.Back, fallback.Back)
	page.Away = cmp.Or(text.Away, fallback.Away)
	var buf bytes.Buffer
	if err := queuedTemplate.Execute(&buf, page); err != nil {
		panic(err) // a template of our own
	}
	html := buf.String()
	policy := fmt.Sprintf(queuedPolicy, hashOf(html, `<script type="module">`, "</script>"), hashOf(html, "<style>", "</style>"))
	return newAsset([]byte(html), "text/html; charset=utf-8", policy).
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
func (h *handler) language(accept string) string {
	best, at := defaultLanguage, 0
	for member := range strings.SplitSeq(accept, ",") {
		name, params, _ := strings.Cut(member, ";")
		primary, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(name)), "-")
		if _, ok := h.queued[primary]; !ok {
			continue
		}
		if q := weight(params); q > at {
			best, at = primary, q
		}
	}
	return best
}
