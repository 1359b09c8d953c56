package quickadd

import (
	"strconv"
	"strings"
	"time"
)

// set is a set of folded words.
type set map[string]bool

func words(s string) set {
	w := set{}
	for f := range strings.FieldsSeq(s) {
		w[f] = true
	}
	return w
}

// form is what a weekday's word can stand for, in the grammar of its language.
type form uint8

const (
	nominative form = 1 << iota // and the English word
	accusative
	dative
	genitive
	plural // "по понедельникам", "mondays"
	short
)

type dayWord struct {
	day  time.Weekday
	form form
}

// days has every word for a weekday.
var days = func() map[string]dayWord {
	m := map[string]dayWord{}
	for _, d := range []struct {
		day                                  time.Weekday
		nom, acc, dat, gen, plural, shortest string
	}{
		{time.Monday, "понедельник monday", "понедельник", "понедельнику", "понедельника", "понедельникам mondays", "пн пнд понед mon"},
		{time.Tuesday, "вторник tuesday", "вторник", "вторнику", "вторника", "вторникам tuesdays", "вт tue tues"},
		{time.Wednesday, "среда wednesday", "среду", "среде", "среды", "средам wednesdays", "ср wed weds"},
		{time.Thursday, "четверг thursday", "четверг", "четвергу", "четверга", "четвергам thursdays", "чт thu thur thurs"},
		{time.Friday, "пятница friday", "пятницу", "пятнице", "пятницы", "пятницам fridays", "пт пятн fri"},
		{time.Saturday, "суббота saturday", "субботу", "субботе", "субботы", "субботам saturdays", "сб суб субб sat"},
		{time.Sunday, "воскресенье воскресение sunday", "воскресенье воскресение", "воскресенью воскресению",
			"воскресенья воскресения", "воскресеньям воскресениям sundays", "вс вск воскр sun"},
	} {
		for f, list := range map[form]string{nominative: d.nom, accusative: d.acc, dative: d.dat, genitive: d.gen, plural: d.plural, short: d.shortest} {
			for w := range words(list) {
				if f == nominative && w[0] < 0x80 {
					f = nominative | accusative | dative | genitive // also after a Russian preposition
				}
				m[w] = dayWord{d.day, m[w].form | f}
			}
		}
	}
	return m
}()

// months has the words that follow or precede a day: "15 декабря", "Dec 15".
var months = func() map[string]time.Month {
	m := map[string]time.Month{}
	for i, list := range []string{
		"января янв january jan", "февраля фев февр february feb", "марта мар march mar", "апреля апр april apr",
		"мая may", "июня июн june jun", "июля июл july jul", "августа авг august aug",
		"сентября сен сент september sep sept", "октября окт october oct", "ноября ноя нояб november nov",
		"декабря дек december dec",
	} {
		for w := range words(list) {
			m[w] = time.Month(i + 1)
		}
	}
	return m
}()

// relatives are days counted from today.
var relatives = map[string]int{
	"сегодня": 0, "завтра": 1, "послезавтра": 2,
	"today": 0, "tonight": 0, "tomorrow": 1,
	// As they are written in a hurry; none of these is another word.
	"седня": 0, "завтро": 1, "послезавтро": 2,
	"tmrw": 1, "tmr": 1, "tmw": 1, "2moro": 1, "2morrow": 1, "tomorow": 1, "tommorow": 1, "tommorrow": 1,
}

// numbers are the words for small numbers, as "через две недели" has them.
var numbers = map[string]int{
	"один": 1, "одну": 1, "два": 2, "две": 2, "три": 3, "четыре": 4, "пять": 5, "шесть": 6, "семь": 7,
	"восемь": 8, "девять": 9, "десять": 10,
	"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
	"eight": 8, "nine": 9, "ten": 10,
}

// unit is what is counted.
type unit uint8

const (
	noUnit unit = iota
	day
	week
	month
)

var units = map[string]unit{
	"день": day, "дня": day, "дней": day, "day": day, "days": day,
	"неделю": week, "недельку": week, "недели": week, "недель": week, "week": week, "weeks": week, "wk": week, "wks": week,
	"месяц": month, "месяца": month, "месяцев": month, "month": month, "months": month,
}

var (
	nextWords = words("следующий следующую следующее следующей следующего следующему следующая след next")
	thisWords = words("этот эту это этой этого этому эта this ближайший ближайшую ближайшее ближайшей ближайшего ближайшему ближайшая coming")
	// everyWords begin a repetition.
	everyWords = words("каждый каждую каждое каждые каждого кажд every each")

	// markers are followed by a number that belongs to the homework.
	markers = words(`№ № n no nr § §§ # упр упражнение упражнения упражнений стр страница страницы страницу страниц
		с сс задача задачи задачу задач зад задание задания заданий номер номера номеров ном п пп пункт пункты пункта
		пар параграф параграфы параграфа гл глава главы главу рис рисунок табл таблица пример примеры прим вопрос
		вопросы вопр вариант вар раздел балл балла строка строки стих масштаб счет соотношение
		p pp page pages ex exercise exercises task tasks problem problems q question questions ch chapter chapters
		section sec unit units fig figure lesson v version score ratio scale`)
	// measures after a number with a point make it an amount: "на 5.12 балла".
	measures = words(`раз раза км м см мм кг г л мл руб рублей рубля р балл балла баллов процент процента процентов
		градус градуса градусов ч час часа часов мин минут минуты сек секунд секунды км/ч км/час м/с стр страниц
		страницы km m cm mm kg g l ml points point percent hours minutes times`)
	// asides before a date make it a thing that is spoken of: "доклад про 15 декабря".
	asides = words("про о об обо от из за между о/об about of from after since like всю всей весь")
	// events have a day, so that 3.12 after them is one: "к/р 3.12 алгебра".
	events = words(`к/р кр с/р контрольная контра экзамен зачет олимпиада впр огэ егэ пробник диктант собрание экскурсия
		концерт дедлайн срок exam quiz deadline`)
	// parts of the day, as they stand for themselves.
	dayparts = map[string]string{
		"утром": "утра", "днем": "дня", "вечером": "вечера", "ночью": "ночи",
		"morning": "утра", "afternoon": "дня", "evening": "вечера", "tonight": "вечера",
	}
	joints = words("и или либо and or &")
	// abbreviations may have a full stop inside an expression.
	abbreviations = words("след кажд ч час г a.m p.m янв фев февр мар апр июн июл авг сен сент окт ноя нояб дек")
)

func abbreviated(w string) bool {
	return abbreviations[w] || days[w].form&short != 0
}

// small reads a number of one to three digits, or its word.
func small(w string) (int, bool) {
	if n, ok := numbers[w]; ok {
		return n, true
	}
	return digits(w, 3)
}

// digits reads at most so many ASCII digits.
func digits(s string, most int) (int, bool) {
	if s == "" || len(s) > most || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// startsWithDigit reports whether w is a number with whatever is attached to
// it: 12, 12-15, 5.12, 12а.
func startsWithDigit(w string) bool { return w != "" && w[0] >= '0' && w[0] <= '9' }

// adjectiveBefore reports whether prev is an adjective that makes a name of the
// weekday after it: "окружающая среда", "чёрная пятница". Masculine ones are
// listed, since "русский понедельник" is the lesson and its day.
func adjectiveBefore(prev string, d dayWord) bool {
	switch {
	case ordinals[prev]:
		return true
	case d.day == time.Wednesday || d.day == time.Friday || d.day == time.Saturday:
		return endsIn(prev, "ая", "яя", "ую", "юю", "ой", "ей")
	case d.day == time.Sunday:
		return endsIn(prev, "ое", "ее")
	}
	return false
}

var ordinals = words(`первый второй третий четвертый пятый последний прошлый прошлого предыдущий чистый черный первого второго
	последнего 1-й 2-й 3-й last first second third every each каждый каждого каждое каждую кажд`)

func endsIn(s string, ends ...string) bool {
	for _, e := range ends {
		if strings.HasSuffix(s, e) && len(s) > len(e)+2 {
			return true
		}
	}
	return false
}
