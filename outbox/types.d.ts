// The shapes that the scripts share. No server serves them; they are in the npm
// package.

/** What bubbles from the element that asked, or from the document. */
export interface OutboxEvents {
  /** it is kept, and waits */
  'outbox:queued': CustomEvent<{ key: string }>;
  /** it waited, and is done; html: the answer, if the request was htmx's */
  'outbox:delivered': CustomEvent<{ key: string; status: number; html: string; text: string }>;
  /** the server's final no, in words */
  'outbox:refused': CustomEvent<{ key: string; status: number; text: string }>;
  /** it is neither known to be delivered nor kept */
  'outbox:unsaved': CustomEvent<{ key: string }>;
  /** a later wish of the same group took its place before it was ever sent */
  'outbox:superseded': CustomEvent<{ key: string }>;
  /** the person wants to change what was refused; its default is to put the text back into its form */
  'outbox:edit': CustomEvent<{ key: string; entry: unknown }>;
}

declare global {
  interface GlobalEventHandlersEventMap extends OutboxEvents {}
}

/**
 * waiting, sending, login, parked and stuck stand in the line of their owner, in
 * order; refused and ask have left it and wait for the person.
 */
export type State = 'waiting' | 'sending' | 'login' | 'parked' | 'stuck' | 'refused' | 'ask';

/** One changing request. Its body lies beside it. Times are in milliseconds. */
export interface Entry {
  /** the place in the line */
  seq: number;
  /** the name, which stands for exactly this body */
  key: string;
  owner: string;
  method: string;
  url: string;
  headers: Record<string, string>;
  referrer: string;
  nav: boolean;
  back: string;
  label: string;
  el: string;
  swap: string;
  /** a later wish of the same group may take its place while it was never sent */
  coalesce: string;
  /** the body for a person to read or copy, if it is text */
  text: string;
  size: number;
  /** a checksum of the body */
  sum: number;
  createdAt: number;
  /** committed before the first byte */
  firstSentAt: number | null;
  /** 0: never */
  triedAt: number;
  attempts: number;
  /** failures since the back-off was last reset */
  tries: number;
  timeouts: number;
  /** answers of somebody else, or of a broken handler */
  odd: number;
  stuck: boolean;
  /** it is known to wait: it was tried, or stands behind one that was */
  told: boolean;
  /** it was refused before the eyes of the page that asked */
  shown: boolean;
  nextAt: number;
  /** the server's Retry-After */
  notBefore: number;
  state: State;
  /** why it is refused or asked about */
  reason: string;
  lastStatus: number;
  lastText: string;
}

export interface Meta {
  /** who is signed in; '': nobody knows */
  owner?: string;
  /** when the page that said so was loaded */
  since?: number;
  /** given by that page, for every send */
  headers?: Record<string, string>;
  /** the keys of the last wishes that later ones took the place of */
  over?: string[];
  /** keys of a group that were done, the last twenty: should one come again, it is not one that was never sent */
  sent?: string[];
}

/** The entries are in order. */
export interface Stored {
  entries: Entry[];
  meta: Meta;
}

export interface Change<T> {
  put?: Entry[];
  bodies?: [string, ArrayBuffer][];
  del?: string[];
  meta?: Meta;
  value: T;
}

export interface Store {
  /**
   * One transaction: reads all, calls fn at once, writes what it returns; all or
   * nothing. Resolves when it is committed (strict: on the disk).
   */
  change<T>(fn: (stored: Stored) => Change<T>, opts?: { strict?: boolean }): Promise<T>;
  read(): Promise<Stored>;
  body(key: string): Promise<ArrayBuffer | null>;
}

export type Config = typeof import('./line.js').defaults;

/** An announced request, taken apart. */
export interface Asked {
  key: string;
  owner: string;
  method: string;
  url: string;
  /** all of them */
  headers: [string, string][];
  body: Promise<ArrayBuffer | null> | ArrayBuffer | null;
  referrer?: string;
  nav?: boolean;
  back?: string;
  label?: string;
  el?: string;
  swap?: string;
  coalesce?: string;
}

export interface Answer {
  /** 0: none came */
  status: number;
  /** 'opaqueredirect' hides everything */
  type?: string;
  redirected?: boolean;
  headers: Headers;
  body: ArrayBuffer;
  /** the hard limit ended it */
  late?: boolean;
}

/**
 * answer: the server's own; queued: it is kept and will be sent; unsaved: it is
 * neither known to be delivered nor kept.
 */
export type Result = { kind: 'answer'; answer: Answer } | { kind: 'queued' } | { kind: 'unsaved' };

/**
 * What an answer means to its entry.
 *
 * done: acknowledged, the entry may be forgotten · refused: final, the entry
 * leaves the line and is shown · wait: our server says later, the line stops ·
 * login: the session is over, the owner's line waits · ask: nobody knows whether
 * it was done, the person decides · parked: the session is another account's ·
 * unguarded: done by a route that nothing guards, never sent again · down: no
 * answer, or a proxy's 502, 503, 504, the line stops for as long as it takes ·
 * odd: an answer from somebody else (captive portal, firewall), the line stops
 * and it is counted.
 */
export type Verdict = 'done' | 'refused' | 'wait' | 'login' | 'ask' | 'parked' | 'unguarded' | 'down' | 'odd';

export interface Outcome {
  verdict: Verdict;
  status: number;
  /** the word of Outbox-Status or Idempotency-Status */
  token: string;
  /** for a person */
  text: string;
  retryAfter: number;
  late: boolean;
  /** our server answers beside the odd answer */
  pong: boolean;
  /** a page is still waiting for this answer */
  live: boolean;
  /** whom the server says is signed in */
  owner: string | null;
}

/** For servers that are not ours: their own proof of delivery. */
export interface Acknowledge {
  header: string;
  /** absent: the header alone is enough */
  values?: string[];
}

export interface Locks {
  request<T>(name: string, options: { ifAvailable?: boolean }, fn: (lock: unknown) => Promise<T>): Promise<T>;
}

/** What the engine is given. */
export interface Parts {
  store: Store;
  fetch: (url: string, init: any) => Promise<any>;
  locks: Locks;
  /** to all pages */
  tell: (message: any) => void;
  /** whether a page is seen */
  visible?: () => boolean | Promise<boolean>;
  now?: () => number;
  random?: () => number;
  later?: (fn: () => void, ms: number) => any;
  never?: (id: any) => void;
  config?: Partial<Config>;
}

/** An announced request, as the worker hears it. */
export interface Announcement {
  key: string;
  owner: string;
  /** without the fragment */
  url: string;
  /** a form's navigation, which wants a page for an answer */
  nav: boolean;
  /** the page that a form was on */
  back: string;
  /** what a person calls it */
  label: string;
  /** the id of the row that shows it */
  el: string;
  /** how and where its answer is put: "outerHTML #task-5"; in further lines the page that this is said of, and what of the answer */
  swap: string;
  /** the group of wishes of which only the last one counts; '': none */
  coalesce: string;
}

/** One wish for one row or form, under one key. */
export interface Wish {
  key: string;
  method: string;
  url: string;
  /** the fields in order; null: unknown, equal to nothing */
  pairs: [string, string][] | null;
  /** the values of client-made ids */
  ids: Record<string, string>;
  /** the next wish is a new one, whatever its content */
  closed: boolean;
  /** its form came back, with the page, as it was sent */
  kept?: boolean;
}

/** Who asks, in a page. */
export interface Who {
  key: string;
  /** the id of the row that shows it */
  el: string;
  asker: Element;
  label?: string;
  /** how and where its answer is put, as in Announcement */
  swap?: string;
  /** where, in this very page */
  target?: Element | null;
  /** the group of wishes of which only the last one counts */
  coalesce?: string;
}

/** What a page is about to request. */
export interface Asking {
  /** the element that asks */
  el: Element;
  form: HTMLFormElement | null;
  /** the button that sent it */
  by?: Element | null;
  method: string;
  url: string;
  data: FormData;
  multipart: boolean;
  /** where the answer goes, and how */
  target?: Element | null;
  swap?: string;
}

export interface Flight {
  who: Who;
  /** a form's navigation: this page waits for no answer */
  nav: boolean;
  /** the page's own code waits for the answer */
  open: boolean;
  /** it was told "it waits" */
  waits: boolean;
  /** it failed in the page */
  lost: boolean;
  /** the page's own code has got the answer */
  shown: boolean;
  /** what the worker told before the own answer came */
  news: any;
  /** what was found after its request had failed */
  found: Promise<Response | null> | null;
  /** lets the next one go */
  placed: () => void;
  again: () => Promise<Response>;
  timer: any;
}

/** An entry as the page's snapshot has it. */
export interface Shown {
  key: string;
  /** waiting | sending | login | parked | stuck stand in the line; refused | ask have left it */
  state: string;
  label?: string;
  el?: string;
  method: string;
  url: string;
  createdAt: number;
  firstSentAt?: number | null;
  attempts: number;
  /** the word for why it is refused or asked about */
  reason?: string;
  lastStatus?: number;
  lastText?: string;
  bodyText?: string;
}

/** What the kit knows besides. */
export interface Seen {
  now: number;
  /** whether the page was told "it waits" */
  queued: (key: string) => boolean;
  /** whether the line waits for a login */
  login?: boolean;
  /** the soft limit: a tap that takes longer is told so */
  soft: number;
}

/** What the kit's list has of an entry. */
export interface Item {
  el: HTMLElement;
  label: HTMLElement;
  meta: HTMLElement;
  when: HTMLTimeElement;
  note: HTMLElement;
  actions: HTMLElement;
  drawn?: string;
  /** it is being given up */
  sure?: boolean;
  editable?: boolean;
}
