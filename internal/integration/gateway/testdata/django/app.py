"""A shop in Django, in one file. Nothing in it knows of keys: each POST that arrives adds an order."""
import hashlib
import json
import os
import secrets
import sys

import django
from django.conf import settings

settings.configure(
    SECRET_KEY=os.environ["SECRET_KEY"],
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        __name__ + ".whose_keys",
    ],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    LOGGING={"version": 1, "handlers": {"stderr": {"class": "logging.StreamHandler"}}, "root": {"handlers": ["stderr"]}},
    DATABASES={"default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ["DATABASE"],
        "OPTIONS": {"timeout": 30},
        "ATOMIC_REQUESTS": True,  # a view that fails leaves nothing behind
    }},
)
django.setup()

from django.contrib.auth import authenticate, login, logout  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection  # noqa: E402
from django.http import HttpResponse, HttpResponseNotFound, JsonResponse  # noqa: E402
from django.shortcuts import redirect  # noqa: E402
from django.template import engines  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils.crypto import salted_hmac  # noqa: E402
from django.views.decorators.http import require_GET, require_POST  # noqa: E402

COLUMNS = ("id", "who", "item", "qty", "done", "file")


def query(sql, *values):
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        rows = [dict(zip(COLUMNS, row)) for row in cursor.fetchall()] if sql.startswith("SELECT") else []
        return rows, cursor.lastrowid, cursor.rowcount


def whose_keys(get_response):
    """For --scope cookie:who. It needs AuthenticationMiddleware before it; --scope cookie:sessionid does without."""
    def answer_to(request):
        answer, who = get_response(request), None
        if request.user.is_authenticated:
            who = salted_hmac("onceward", str(request.user.pk), algorithm="sha256").hexdigest()
        if who and request.COOKIES.get("who") != who:
            lifetime = None if request.session.get_expire_at_browser_close() else request.session.get_expiry_age()
            answer.set_cookie("who", who, max_age=lifetime, httponly=True, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE)
        elif not who and "who" in request.COOKIES:
            answer.delete_cookie("who")
        return answer
    return answer_to


def for_users(view):
    def guarded(request, **kwargs):
        return view(request, **kwargs) if request.user.is_authenticated else HttpResponse("sign in first", status=401)
    return guarded


def add(request, item, qty, file=None):
    return query("INSERT INTO orders (who, item, qty, done, file) VALUES (%s, %s, %s, 0, %s)",
                 request.user.username, item, qty, file)[1]


def order(request, number):
    rows, _, _ = query("SELECT id, who, item, qty, done, file FROM orders WHERE id = %s AND who = %s",
                       number, request.user.username)
    return JsonResponse(rows[0]) if rows else HttpResponseNotFound()


SIGN_IN = engines["django"].from_string("""<!doctype html><title>Shop</title>
<form method="post" action="/login">{% csrf_token %}
  <input name="name"> <input name="password" type="password"> <button>Sign in</button>
</form>""")

PAGE = engines["django"].from_string("""<!doctype html><title>Shop</title>
<form method="post" action="/orders">{% csrf_token %}
  <input type="hidden" name="_key" value="{{ key }}">
  <input name="item"> <input name="qty" value="1"> <button>Order</button>
</form>""")


@require_GET
def page(request):
    if not request.user.is_authenticated:
        return HttpResponse(SIGN_IN.render({}, request))
    return HttpResponse(PAGE.render({"key": secrets.token_urlsafe()}, request))


@require_POST
def sign_in(request):
    user = authenticate(request, username=request.POST["name"], password=request.POST["password"])
    if user is None:
        return HttpResponse("no such name, or another password", status=401)
    login(request, user)  # a new sessionid
    return redirect("/")


@require_POST
def sign_out(request):
    logout(request)
    return redirect("/")


@for_users
def orders(request):
    if request.method == "GET":
        rows, _, _ = query("SELECT id, who, item, qty, done, file FROM orders WHERE who = %s ORDER BY id",
                           request.user.username)
        return JsonResponse(rows, safe=False)
    is_json = request.content_type == "application/json"
    wanted = json.loads(request.body) if is_json else request.POST
    if not wanted.get("item"):
        return JsonResponse({"error": "which item?"}, status=422)
    number = add(request, wanted["item"], int(wanted.get("qty", 1)))
    if is_json:
        answer = JsonResponse({"id": number}, status=201)
    else:
        answer = HttpResponse(status=303)
    answer["Location"] = f"/orders/{number}"
    return answer


@require_GET
@for_users
def show(request, number):
    return order(request, number)


@require_POST
@for_users
def toggle(request, number):
    query("UPDATE orders SET done = 1 - done WHERE id = %s AND who = %s", number, request.user.username)
    return order(request, number)


@require_POST
@for_users
def upload(request):
    digest = hashlib.sha256()
    for chunk in request.FILES["file"].chunks():
        digest.update(chunk)
    number = add(request, request.POST["item"], 1, digest.hexdigest())
    return JsonResponse({"id": number, "file": digest.hexdigest()}, status=201)


urlpatterns = [
    path("", page),
    path("login", sign_in),
    path("logout", sign_out),
    path("orders", orders),
    path("orders/<int:number>", show),
    path("orders/<int:number>/toggle", toggle),
    path("files", upload),
]
app = get_wsgi_application()

if __name__ == "__main__":  # python3 app.py NAME PASSWORD: makes the tables and an account
    call_command("migrate", verbosity=0)
    query("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, who TEXT, item TEXT, qty INTEGER, done INTEGER, file TEXT)")
    User.objects.create_user(sys.argv[1], password=sys.argv[2])
