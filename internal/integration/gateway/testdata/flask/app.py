"""A shop in Flask. Nothing in it knows of keys: each POST that arrives adds an order."""
import hashlib
import hmac
import os
import secrets
import sqlite3

from flask import Flask, abort, flash, g, jsonify, redirect, render_template_string, request, session

app = Flask(__name__)
app.secret_key = os.environ["SECRET_KEY"]


def db():
    if "db" not in g:
        g.db = sqlite3.connect(os.environ["DATABASE"], timeout=30)
        g.db.row_factory = sqlite3.Row
        g.db.execute("""CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, who TEXT, item TEXT,
            qty INTEGER, done INTEGER DEFAULT 0, file TEXT)""")
    return g.db


@app.teardown_appcontext
def close(error):
    if "db" in g:
        g.db.close()  # what was not committed is undone


@app.after_request
def whose_keys(answer):
    # One value for one account, that nobody else can make. It goes with every page, not only
    # with the sign-in, so that whoever is signed in already, or has lost it, gets it too.
    name, who = session.get("user"), None
    if name:
        who = hmac.new(app.secret_key.encode(), b"onceward " + name.encode(), hashlib.sha256).hexdigest()
    if who and request.cookies.get("who") != who:
        lifetime = app.permanent_session_lifetime if session.permanent else None
        answer.set_cookie("who", who, max_age=lifetime, httponly=True, samesite="Lax", secure=app.config["SESSION_COOKIE_SECURE"])
    elif not who and "who" in request.cookies:
        answer.delete_cookie("who")
    return answer


def user():
    return session.get("user") or abort(401)


def add(item, qty, file=None):
    cursor = db().execute("INSERT INTO orders (who, item, qty, file) VALUES (?, ?, ?, ?)", (user(), item, qty, file))
    db().commit()
    return cursor.lastrowid


SIGN_IN = """<!doctype html><title>Shop</title>
<form method="post" action="/login"><input name="name"> <button>Sign in</button></form>"""

PAGE = """<!doctype html><title>Shop</title>
{% for message in get_flashed_messages() %}<p>{{ message }}</p>{% endfor %}
<form method="post" action="/orders">
  <input type="hidden" name="_key" value="{{ key }}">
  <input name="item"> <input name="qty" value="1"> <button>Order</button>
</form>"""


@app.get("/")
def page():
    if "user" not in session:
        return SIGN_IN
    return render_template_string(PAGE, key=secrets.token_urlsafe())


@app.post("/login")
def login():
    name = request.form["name"]  # a real shop asks for more
    session["user"] = name
    session.permanent = True  # outlives the browser
    return redirect("/", code=303)


@app.post("/logout")
def logout():
    session.clear()
    return redirect("/", code=303)


@app.post("/orders")
def create_order():
    wanted = request.get_json() if request.is_json else request.form
    if not wanted.get("item"):
        return jsonify(error="which item?"), 422
    number = add(wanted["item"], int(wanted.get("qty", 1)))
    if request.is_json:
        return jsonify(id=number), 201, {"Location": f"/orders/{number}"}
    flash(f"Order {number} is on its way.")
    return redirect(f"/orders/{number}", code=303)


@app.post("/orders/<int:number>/toggle")
def toggle(number):
    changed = db().execute("UPDATE orders SET done = 1 - done WHERE id = ? AND who = ?", (number, user()))
    db().commit()
    if changed.rowcount == 0:
        abort(404)
    return jsonify(order(number))


@app.post("/files")
def upload():
    digest = hashlib.sha256()
    for chunk in iter(lambda: request.files["file"].stream.read(65536), b""):
        digest.update(chunk)
    number = add(request.form["item"], 1, digest.hexdigest())
    return jsonify(id=number, file=digest.hexdigest()), 201


def order(number):
    row = db().execute("SELECT * FROM orders WHERE id = ? AND who = ?", (number, user())).fetchone()
    return dict(row) if row else abort(404)


@app.get("/orders/<int:number>")
def show(number):
    return jsonify(order(number))


@app.get("/orders")
def orders():
    rows = db().execute("SELECT * FROM orders WHERE who = ? ORDER BY id", (user(),))
    return jsonify([dict(row) for row in rows])
