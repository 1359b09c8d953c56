"""What the tests do to the apps, around them: it counts requests, waits, fails and dies on order."""
import importlib
import os
import signal
import time

shop = importlib.import_module("app").app


def app(environ, start_response):
    if environ["REQUEST_METHOD"] != "GET":
        line = "{REQUEST_METHOD} {PATH_INFO} {HTTP_IDEMPOTENCY_KEY}\n".format_map(Absent(environ))
        out = os.open(os.environ["ARRIVALS"], os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.write(out, line.encode())
        os.close(out)
    wish = dict(part.partition("=")[::2] for part in environ.get("HTTP_X_CHAOS", "").split(",") if part)
    time.sleep(float(wish.get("before", 0)))
    if "die-before" in wish:
        os.kill(os.getpid(), signal.SIGKILL)
    if "fail-before" in wish:
        start_response(wish["fail-before"] + " Chaos", [("Content-Type", "text/plain")])
        return [b"chaos"]
    head = []
    result = shop(environ, lambda *args: head.append(args))
    try:
        body = b"".join(result)
    finally:
        if hasattr(result, "close"):
            result.close()
    time.sleep(float(wish.get("after", 0)))
    if "die-after" in wish:
        os.kill(os.getpid(), signal.SIGKILL)
    if "fail-after" in wish:
        start_response(wish["fail-after"] + " Chaos", [("Content-Type", "text/plain")])
        return [b"chaos"]
    start_response(*head[-1][:2])
    return [body]


class Absent(dict):
    def __missing__(self, name):
        return "-"
