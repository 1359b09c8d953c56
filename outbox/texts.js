// @ts-check
// The words that a person sees. Pure: no page, no clock.
//
// A name with a number has one line per plural category of the language
// ("waiting.few"), and may have one for a single exact number ("waiting.1").

/** @type {Record<string, Record<string, string>>} */
export const words = {
  ru: {
    'waiting.1': 'Одно изменение ждёт сети',
    'waiting.one': '{n} изменение ждёт сети',
    'waiting.few': '{n} изменения ждут сети',
    'waiting.many': '{n} изменений ждут сети',
    sending: 'Отправляем…',
    'login.1': 'Войдите снова, чтобы сохранить одно изменение',
    'login.one': 'Войдите снова, чтобы сохранить {n} изменение',
    'login.few': 'Войдите снова, чтобы сохранить {n} изменения',
    'login.many': 'Войдите снова, чтобы сохранить {n} изменений',
    'refused.1': 'Одно изменение не принято',
    'refused.one': '{n} изменение не принято',
    'refused.few': '{n} изменения не приняты',
    'refused.many': '{n} изменений не принято',
    'stuck.1': 'Одно изменение никак не отправляется',
    'stuck.one': '{n} изменение никак не отправляется',
    'stuck.few': '{n} изменения никак не отправляются',
    'stuck.many': '{n} изменений никак не отправляются',
    'ask.1': 'Неизвестно, сохранилось ли одно изменение',
    'ask.one': 'Неизвестно, сохранилось ли {n} изменение',
    'ask.few': 'Неизвестно, сохранились ли {n} изменения',
    'ask.many': 'Неизвестно, сохранились ли {n} изменений',
    'foreign.1': 'Одно изменение из другого аккаунта ждёт своего хозяина',
    'foreign.one': '{n} изменение из другого аккаунта ждёт своего хозяина',
    'foreign.few': '{n} изменения из другого аккаунта ждут своего хозяина',
    'foreign.many': '{n} изменений из другого аккаунта ждут своего хозяина',
    unsaved: 'Не сохранено на этом устройстве. Не закрывайте страницу и попробуйте ещё раз.',
    'row.waiting': 'сохранится, когда появится сеть',
    'row.login': 'сохранится после входа',
    'row.refused': 'не принято',
    'row.stuck': 'пока не отправляется',
    'row.ask': 'неизвестно, сохранилось ли',
    'row.old': 'ждёт слишком давно',
    'state.waiting': 'Ждёт сети',
    'state.sending': 'Отправляется',
    'state.login': 'Ждёт входа',
    'state.refused': 'Не принято',
    'state.stuck': 'Не отправляется: сервер на связи, но ответа о сохранении нет',
    'state.ask': 'Неизвестно, сохранилось ли',
    'state.old': 'Ждёт слишком давно. Отправить?',
    'why.gone': 'этого больше нет, возможно, удалено на другом устройстве',
    'why.denied': 'нет доступа',
    'why.large': 'слишком большое',
    'why.server': 'ошибка на сервере',
    'why.status': 'сервер не принял ({n})',
    title: 'Что не сохранено',
    none: 'Ничего не ждёт',
    look: 'Посмотреть',
    enter: 'Войти',
    close: 'Закрыть',
    retry: 'Повторить',
    send: 'Отправить',
    flush: 'Отправить сейчас',
    check: 'Проверить',
    resend: 'Отправить заново',
    edit: 'Исправить',
    copy: 'Копировать',
    copied: 'Скопировано',
    discard: 'Удалить',
    sure: 'Удалить насовсем?',
    keep: 'Оставить',
    unsure: 'По-прежнему неизвестно',
    away: 'Уже отправляется, отменить нельзя',
    change: 'Изменение',
    'leave.1': 'Одно изменение ещё не сохранено на сервере',
    'leave.one': '{n} изменение ещё не сохранено на сервере',
    'leave.few': '{n} изменения ещё не сохранены на сервере',
    'leave.many': '{n} изменений ещё не сохранены на сервере',
    'leave.send': 'Отправить и выйти',
    'leave.keep': 'Оставить до следующего входа',
    'leave.drop': 'Удалить и выйти',
    'leave.stay': 'Не выходить',
    'leave.failed': 'Отправить пока не получилось',
  },
  en: {
    'waiting.1': 'One change is waiting for the network',
    'waiting.other': '{n} changes are waiting for the network',
    sending: 'Sending…',
    'login.1': 'Log in again to save one change',
    'login.other': 'Log in again to save {n} changes',
    'refused.1': 'One change was not accepted',
    'refused.other': '{n} changes were not accepted',
    'stuck.1': 'One change cannot be sent',
    'stuck.other': '{n} changes cannot be sent',
    'ask.1': 'It is not known whether one change was saved',
    'ask.other': 'It is not known whether {n} changes were saved',
    'foreign.1': 'One change of another account is waiting for its owner',
    'foreign.other': '{n} changes of another account are waiting for their owner',
    unsaved: 'Not saved on this device. Keep the page open and try again.',
    'row.waiting': 'will be saved when there is a network',
    'row.login': 'will be saved after you log in',
    'row.refused': 'not accepted',
    'row.stuck': 'cannot be sent yet',
    'row.ask': 'not known whether it was saved',
    'row.old': 'has waited too long',
    'state.waiting': 'Waiting for the network',
    'state.sending': 'Being sent',
    'state.login': 'Waiting for you to log in',
    'state.refused': 'Not accepted',
    'state.stuck': 'Cannot be sent: the server is there, but does not say that it was saved',
    'state.ask': 'Not known whether it was saved',
    'state.old': 'Has waited too long. Send it?',
    'why.gone': 'it is no longer there, perhaps deleted on another device',
    'why.denied': 'no access',
    'why.large': 'too large',
    'why.server': 'an error on the server',
    'why.status': 'the server did not take it ({n})',
    title: 'What is not saved',
    none: 'Nothing is waiting',
    look: 'Look',
    enter: 'Log in',
    close: 'Close',
    retry: 'Retry',
    send: 'Send',
    flush: 'Send now',
    check: 'Check',
    resend: 'Send again',
    edit: 'Edit',
    copy: 'Copy',
    copied: 'Copied',
    discard: 'Delete',
    sure: 'Delete for good?',
    keep: 'Keep',
    unsure: 'Still not known',
    away: 'Already on its way, it cannot be taken back',
    change: 'Change',
    'leave.1': 'One change is not saved on the server yet',
    'leave.other': '{n} changes are not saved on the server yet',
    'leave.send': 'Send and log out',
    'leave.keep': 'Keep until the next login',
    'leave.drop': 'Delete and log out',
    'leave.stay': 'Stay',
    'leave.failed': 'They could not be sent yet',
  },
};

/**
 * @typedef {object} Speaker
 * @property {(name: string, n?: number) => string} say the words of that name,
 *   for n things; '' where there are none
 * @property {(ms: number) => string} ago how long ago, rounded
 */

/**
 * A speaker of the page's language. Own words replace ours one by one; with them
 * the language may be any that Intl knows. A language that we do not speak and
 * nobody gave words for is English.
 *
 * @param {string} lang as in <html lang>
 * @param {Record<string, string>} [own]
 * @returns {Speaker}
 */
export function speaker(lang, own = {}) {
  const known = words[lang.slice(0, 2).toLowerCase()];
  const locale = supported(known || Object.keys(own).length ? lang : 'en');
  const ours = known ?? words.en;
  const rules = new Intl.PluralRules(locale);
  const numbers = new Intl.NumberFormat(locale);
  const times = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' });

  return {
    say(name, n) {
      if (n === undefined) return own[name] ?? ours[name] ?? '';
      // Plural lines are taken from one language only: another's "one" may stand
      // for 21 as well.
      const from = Object.keys(own).some((k) => k === name || k.startsWith(`${name}.`)) ? own : ours;
      const line =
        from[`${name}.${n}`] ?? from[`${name}.${rules.select(n)}`] ?? from[`${name}.other`] ?? from[`${name}.many`] ?? from[name] ?? '';
      return line.replaceAll('{n}', numbers.format(n));
    },
    ago(ms) {
      const s = Math.max(0, ms) / 1000;
      if (s < 45) return times.format(0, 'second');
      if (s < 45 * 60) return times.format(-Math.round(s / 60), 'minute');
      if (s < 22 * 3600) return times.format(-Math.round(s / 3600), 'hour');
      return times.format(-Math.round(s / 86400), 'day');
    },
  };
}

/** @param {string} lang */
function supported(lang) {
  try {
    return Intl.PluralRules.supportedLocalesOf([lang])[0] ?? 'en';
  } catch {
    return 'en'; // not a language tag at all
  }
}
