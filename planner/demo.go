package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/onceward/onceward/planner/internal/account"
	"github.com/onceward/onceward/planner/internal/civil"
	"github.com/onceward/onceward/planner/internal/task"
	"github.com/onceward/onceward/planner/internal/web"
)

const demoLogin = "demo"

// seedDemo gives the account "demo" a week of a pupil's life and a new password,
// which it prints: a password that everybody knows would be open to everybody.
// The tasks have fixed ids, so that seeding twice adds nothing.
func seedDemo(ctx context.Context, app *web.App, stdout io.Writer) error {
	password := strings.ToLower(rand.Text()[:10])
	user, err := app.Accounts().Register(ctx, demoLogin, password, "ru", "Europe/Moscow")
	if errors.Is(err, account.ErrLoginTaken) {
		user, err = app.Accounts().Reset(ctx, demoLogin, password)
	}
	if err != nil {
		return err
	}
	now := time.Now().In(user.Location())
	today := civil.Today(now)
	for i, text := range []string{
		"Сдать учебники в библиотеку вчера",
		"Физика: задачи 12–15 завтра",
		"Алгебра №345, 347 завтра",
		"Выучить стихотворение сегодня 19:00",
		"Купить тетрадь в клетку сегодня",
		"Тренировка каждый понедельник 18:00",
		"Полить цветы каждый день",
		"Английский: unit 5, слова через 3 дня",
		"Контрольная по химии через 6 дней",
		"Реферат по истории через 12 дней",
		"Придумать подарок маме",
	} {
		draft, err := task.Read(strings.TrimSuffix(text, " вчера"), now)
		if err != nil {
			return err
		}
		if strings.HasSuffix(text, " вчера") {
			draft.Due = today.AddDays(-1)
		}
		if _, _, err := app.Tasks().Create(ctx, user.ID, fmt.Sprintf("demo-%d", i+1), draft); err != nil {
			return err
		}
	}
	if _, _, err := app.Tasks().Create(ctx, user.ID, "demo-0", task.Draft{Title: "Записаться в планировщик", Due: today}); err != nil {
		return err
	}
	if _, err := app.Tasks().SetDone(ctx, user.ID, "demo-0", true, today); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "planner: log in as %s with the password %s\n", demoLogin, password)
	return nil
}
