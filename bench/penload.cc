// penload: sends mail by SMTP over many connections, times the answers, and keeps a ledger of the accepted messages.
// It has one thread.
#include <sys/epoll.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <deque>
#include <map>
#include <memory>

#include "bench/bench_tls.h"

using namespace pen::bench;

namespace {

struct Options {
  std::string host = "127.0.0.1", unix_path, ledger, prefix = "L", from = "sender@load.example",
              domain = "load.example";
  std::string helo = "load.example";
  std::string user;
  int users = 0;
  int port = 2525, connections = 1, recipients = 1, domains = 0, idle = 0, idle_at_once = 200;
  long messages = 1000, per_connection = 0, retries = 0;
  std::size_t size = 4096;
  bool pipelining = false, bdat = false, dots = false, verbose = false, tls = false;
  double limit = 300, rate = 0, timeout = 300;
} options;

enum class State { dead, connecting, greeting, ehlo, starttls, mail, rcpt, data, body, quit, idle };
constexpr const char* kStateNames[] = {"dead", "connection", "greeting",    "EHLO", "STARTTLS", "MAIL",
                                       "RCPT", "DATA",       "end of data", "QUIT", "idle"};
static_assert(std::size(kStateNames) == static_cast<std::size_t>(State::idle) + 1);
struct Connection {
  int fd = -1;
  std::unique_ptr<TlsSession> tls;
  State state = State::dead;
  std::string in, out;
  std::size_t out_at = 0;
  const std::string* big = nullptr;  // sent after out, without a copy
  std::size_t big_at = 0;
  std::string tail;  // sent after big
  long message = -1, done = 0;
  int rcpt_replies = 0, rcpt_good = 0;
  std::vector<bool> good;
  bool pipelining = false, chunking = false, writing = false, data_sent = false;
  double begun = 0, message_begun = 0, dot_sent = 0;
  double rest_until = 0;  // a refused client tries again then; the others continue
  double moved = 0;       // when the peer last sent or took something
};

constexpr double kRest = 0.05;  // seconds
// Seconds of silence after which the kernel probes the peer: a listener that is killed during a handshake may leave a
// client with a connection that has no other end. Options::timeout is for peers that are there but silent.
constexpr int kKeepAlive = 5;

int poller = -1;
Address target;
std::vector<Connection> connections;
std::deque<long> again;
std::string body, stuffed_body;
LedgerFile ledger;
long next_message = 0, taken = 0, refused = 0, doubtful = 0, given_up = 0, connects = 0, connect_failures = 0,
     established = 0, unanswered = 0;
std::map<long, int> tries;
std::map<std::string, long> complaints;
std::unique_ptr<TlsContext> tls_context;  // null: clear text
volatile std::sig_atomic_t stop_asked = 0;
std::vector<float> dot_times, message_times, connect_times;
double started = 0, first_taken = 0, last_taken = 0;

void complain(const std::string& what) {
  if (options.verbose) std::fprintf(stderr, "%s\n", what.c_str());
  ++complaints[what.substr(0, 100)];
}
bool more_work() {
  if (!again.empty()) return true;
  if (next_message >= options.messages) return false;
  return options.rate <= 0 || static_cast<double>(next_message) < (now() - started) * options.rate;
}
bool all_done() { return again.empty() && next_message >= options.messages; }
std::string recipient(long message, int i) {
  const long domain = options.domains > 0 ? (message * options.recipients + i) % options.domains : -1;
  std::string local = "u" + std::to_string(message) + "-" + std::to_string(i);
  if (!options.user.empty())
    local =
        options.user + (options.users > 0 ? std::to_string((message * options.recipients + i) % options.users) : "");
  return local + "@" + (domain >= 0 ? "d" + std::to_string(domain) + "." : "") + options.domain;
}
std::string id_of(long message) { return options.prefix + "." + std::to_string(message); }
/// The first line of the body, which makes every checksum unique.
std::string first_line(long message) { return "message " + id_of(message) + "\r\n"; }
std::uint64_t checksum_of(long message) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset(state);
  const auto line = first_line(message);
  XXH3_64bits_update(state, line.data(), line.size());
  XXH3_64bits_update(state, body.data(), body.size());
  const auto sum = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return sum;
}
void note(const Connection& c, std::string_view word) {
  if (!ledger.on()) return;
  const auto sum = checksum_of(c.message);
  for (int i = 0; i < options.recipients; ++i)
    if (c.good.empty() || c.good[static_cast<std::size_t>(i)])
      ledger_line(ledger.text, word, id_of(c.message), sum, recipient(c.message, i));
}

void watch(Connection& c, bool write) {
  if (c.writing == write) return;
  epoll_event e{};
  e.events = EPOLLIN | (write ? EPOLLOUT : 0u);
  e.data.u32 = static_cast<std::uint32_t>(&c - connections.data());
  ::epoll_ctl(poller, EPOLL_CTL_MOD, c.fd, &e);
  c.writing = write;
}
void close_connection(Connection& c) {
  c.tls.reset();
  if (c.fd >= 0) ::close(c.fd);
  c.fd = -1;
  c.state = State::dead;
}
void try_again(long message) {
  if (tries[message]++ < options.retries)
    again.push_back(message);
  else
    ++given_up;
}
/// Gives the connection up; its message is in doubt if its end was sent.
void fail(Connection& c, const std::string& why) {
  complain(why);
  if (c.message >= 0) {
    if (c.state == State::body && c.data_sent) {
      ++doubtful;
      note(c, "doubt");
    } else {
      try_again(c.message);
    }
    c.message = -1;
  } else if (c.state == State::connecting || c.state == State::greeting || c.state == State::ehlo ||
             c.state == State::starttls) {
    ++connect_failures;
    c.rest_until = now() + kRest;
  }
  close_connection(c);
}
void connect_one(Connection& c) {
  c = Connection();
  c.fd = ::socket(target.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (c.fd < 0) die(std::string("socket: ") + std::strerror(errno));
  const int on = 1, pause = kKeepAlive;
  if (!target.is_unix()) {
    ::setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  if (!target.is_unix() && options.idle == 0) {
    ::setsockopt(c.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    ::setsockopt(c.fd, IPPROTO_TCP, TCP_KEEPIDLE, &pause, sizeof pause);
    ::setsockopt(c.fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
  }
  c.begun = c.moved = now();
  ++connects;
  const int rc = ::connect(c.fd, target.get(), target.size);
  c.state = rc == 0 ? State::greeting : State::connecting;
  if (rc != 0 && errno != EINPROGRESS) {
    fail(c, std::string("connect: ") + std::strerror(errno));
    return;
  }
  epoll_event e{};
  e.events = EPOLLIN | (rc != 0 ? EPOLLOUT : 0u);
  c.writing = rc != 0;
  e.data.u32 = static_cast<std::uint32_t>(&c - connections.data());
  ::epoll_ctl(poller, EPOLL_CTL_ADD, c.fd, &e);
}
void flush(Connection& c) {
  auto push = [&](const char* at, std::size_t size, std::size_t& done, bool more) {
    while (done < size) {
      const ssize_t n = tls_send(c.fd, c.tls.get(), at + done, size - done, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
      if (n < 0) {
        if (errno == EAGAIN)
          watch(c, !c.tls || !c.tls->wants_read());
        else
          fail(c, std::string("send: ") + std::strerror(errno));
        return false;
      }
      done += static_cast<std::size_t>(n);
      c.moved = now();
    }
    return true;
  };
  if (!push(c.out.data(), c.out.size(), c.out_at, c.big != nullptr)) return;
  c.out.clear();
  c.out_at = 0;
  if (c.big) {
    if (!push(c.big->data(), c.big->size(), c.big_at, !c.tail.empty())) return;
    c.big = nullptr;
    c.out = std::move(c.tail);
    c.tail.clear();
    c.data_sent = true;
    c.dot_sent = now();
    if (!push(c.out.data(), c.out.size(), c.out_at, false)) return;
    c.out.clear();
    c.out_at = 0;
  }
  watch(c, false);
}
void next(Connection& c);
void send_content(Connection& c) {
  const std::string header = "From: <" + options.from + ">\r\nTo: undisclosed-recipients:;\r\nSubject: load " +
                             std::to_string(c.message) + "\r\nDate: Mon, 01 Jan 2024 00:00:00 +0000\r\nMessage-ID: <" +
                             id_of(c.message) + "@load.example>\r\nX-Load-Id: " + id_of(c.message) + "\r\n\r\n" +
                             first_line(c.message);
  const bool bdat = c.chunking && options.bdat;
  if (bdat) c.out += "BDAT " + std::to_string(header.size() + body.size()) + " LAST\r\n";
  c.out += header;
  c.big = bdat ? &body : &stuffed_body;
  c.big_at = 0;
  c.tail = bdat ? "" : ".\r\n";
  c.state = State::body;
}
void begin_message(Connection& c) {
  if (!again.empty()) {
    c.message = again.front();
    again.pop_front();
  } else {
    c.message = next_message++;
  }
  c.rcpt_replies = c.rcpt_good = 0;
  c.good.assign(static_cast<std::size_t>(options.recipients), false);
  c.data_sent = false;
  c.message_begun = now();
  c.out += "MAIL FROM:<" + options.from + ">\r\n";
  c.state = State::mail;
  if (!c.pipelining) return;
  for (int i = 0; i < options.recipients; ++i) c.out += "RCPT TO:<" + recipient(c.message, i) + ">\r\n";
  if (!(c.chunking && options.bdat)) c.out += "DATA\r\n";
}
void next(Connection& c) {
  c.message = -1;
  if ((options.per_connection > 0 && c.done >= options.per_connection) || all_done()) {
    c.state = State::quit;
    c.out += "QUIT\r\n";
  } else if (more_work()) {
    begin_message(c);
  } else {
    c.state = State::idle;  // to keep the rate, the main loop wakes it
  }
}
void on_rcpt_reply(Connection& c, bool good, const std::string& line) {
  if (good) {
    ++c.rcpt_good;
    c.good[static_cast<std::size_t>(c.rcpt_replies)] = true;
  } else {
    ++refused;
    complain(line);
  }
  if (++c.rcpt_replies < options.recipients) {
    if (!c.pipelining) c.out += "RCPT TO:<" + recipient(c.message, c.rcpt_replies) + ">\r\n";
    return;
  }
  if (c.chunking && options.bdat && c.rcpt_good > 0) return send_content(c);
  if (!c.pipelining && c.rcpt_good > 0) c.out += "DATA\r\n";
  if (c.rcpt_good == 0 && (!c.pipelining || (c.chunking && options.bdat))) return fail(c, line);
  c.state = State::data;
}
void on_end_of_data_reply(Connection& c, bool good, const std::string& line) {
  const double t = now();
  if (!c.data_sent) return fail(c, line);
  if (!good) {
    ++refused;
    complain(line);
    try_again(c.message);
    ++c.done;
    return next(c);
  }
  last_taken = t;
  if (first_taken == 0) first_taken = t;
  ++taken;
  ++c.done;
  dot_times.push_back(static_cast<float>(t - c.dot_sent));
  message_times.push_back(static_cast<float>(t - c.message_begun));
  note(c, "sent");
  next(c);
}
void on_reply(Connection& c, int code, const std::string& line) {
  const bool good = code / 100 == 2;
  switch (c.state) {
    case State::greeting:
      if (!good) return fail(c, line);
      c.out += "EHLO " + options.helo + "\r\n";
      c.state = State::ehlo;
      return;
    case State::ehlo:
      if (!good) return fail(c, line);
      if (tls_context && !c.tls) {
        c.out += "STARTTLS\r\n";
        c.state = State::starttls;
        return;
      }
      ++established;
      connect_times.push_back(static_cast<float>(now() - c.begun));
      if (options.idle > 0)
        c.state = State::idle;
      else
        next(c);
      return;
    case State::starttls:
      if (!good) return fail(c, line);
      c.tls = tls_context->open(c.fd);
      c.pipelining = c.chunking = false;
      c.out += "EHLO " + options.helo + "\r\n";
      c.state = State::ehlo;
      return;
    case State::mail:
      if (!good) {
        ++refused;
        return fail(c, line);
      }
      c.state = State::rcpt;
      if (!c.pipelining) c.out += "RCPT TO:<" + recipient(c.message, 0) + ">\r\n";
      return;
    case State::rcpt:
      return on_rcpt_reply(c, good, line);
    case State::data:
      if (code / 100 != 3) {
        ++refused;
        return fail(c, line);
      }
      return send_content(c);
    case State::body:
      return on_end_of_data_reply(c, good, line);
    case State::quit:
      return close_connection(c);
    default:
      return fail(c, line);
  }
}
void on_line(Connection& c, const std::string& line) {
  if (line.size() < 3) return fail(c, "not a reply: " + line);
  if (c.state == State::ehlo && line.size() > 4) {
    const std::string word = line.substr(4);
    if (options.pipelining && word == "PIPELINING") c.pipelining = true;
    if (word == "CHUNKING") c.chunking = true;
  }
  if (line.size() > 3 && line[3] == '-') return;
  on_reply(c, std::atoi(line.c_str()), line);
}
void readable(Connection& c) {
  static char buffer[65536];
  if (c.tls && c.tls->wants_read()) {
    flush(c);
    if (c.state == State::dead) return;
  }
  const ssize_t n = tls_recv(c.fd, c.tls.get(), buffer, sizeof buffer);
  if (n <= 0) {
    if (n < 0 && errno == EAGAIN) return;
    if (c.state == State::quit || (c.state == State::idle && options.idle == 0))
      close_connection(c);
    else
      fail(c, n == 0 ? "closed by peer" : std::string("recv: ") + std::strerror(errno));
    return;
  }
  c.moved = now();
  c.in.append(buffer, static_cast<std::size_t>(n));
  std::size_t at = 0;
  for (std::size_t lf; c.state != State::dead && (lf = c.in.find('\n', at)) != std::string::npos; at = lf + 1) {
    std::size_t end = lf;
    if (end > at && c.in[end - 1] == '\r') --end;
    on_line(c, c.in.substr(at, end - at));
  }
  if (c.state != State::dead) {
    c.in.erase(0, at);
    flush(c);
  }
}
void report(const char* mode) {
  const double span = std::max(last_taken - started, 1e-9);
  std::size_t idle = 0;
  for (const auto& c : connections) idle += c.state == State::idle ? 1 : 0;
  std::printf(
      "{\"mode\":\"%s\",\"taken\":%ld,\"refused\":%ld,\"in_doubt\":%ld,\"given_up\":%ld,"
      "\"unanswered\":%ld,\"connects\":%ld,"
      "\"connect_failures\":%ld,\"seconds\":%.4f,\"per_s\":%.1f,\"mib_per_s\":%.2f,\"cpu_s\":%.3f,",
      mode, taken, refused, doubtful, given_up, unanswered, connects, connect_failures, taken ? span : 0.0,
      taken ? static_cast<double>(taken) / span : 0.0,
      static_cast<double>(taken) * static_cast<double>(options.size) / 1048576.0 / span, cpu_seconds());
  auto spread = [](const char* name, std::vector<float>& samples) {
    std::printf("\"%s\":{\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,\"max\":%.3f},", name, percentile_ms(samples, 0.5),
                percentile_ms(samples, 0.9), percentile_ms(samples, 0.99), percentile_ms(samples, 1));
  };
  spread("dot_ms", dot_times);
  spread("message_ms", message_times);
  spread("connect_ms", connect_times);
  std::printf("\"idle\":%zu,\"complaints\":[", idle);
  int shown = 0;
  for (const auto& [what, count] : complaints) {
    std::string clean;
    for (const char ch : what)
      if (ch >= 32 && ch < 127 && ch != '"' && ch != '\\') clean += ch;
    if (shown < 8) std::printf("%s\"%ldx %s\"", shown ? "," : "", count, clean.c_str());
    ++shown;
  }
  std::printf("]}\n");
  std::fflush(stdout);
}
void make_body() {
  std::uint32_t x = 12345;
  const std::size_t wanted = options.size;
  while (body.size() < wanted) {
    const std::size_t room = wanted - body.size();
    const std::size_t width = room <= 2 ? 0 : std::min<std::size_t>(76, room - 2);
    std::string line;
    for (std::size_t i = 0; i < width; ++i) {
      x = x * 1664525u + 1013904223u;
      line += "abcdefghijklmnopqrstuvwxyz ABCDEF"[(x >> 24) % 33];
    }
    if (options.dots && !line.empty() && (x >> 8) % 8 == 0) line[0] = '.';
    body += line + "\r\n";
  }
  for (std::size_t at = 0; at < body.size();) {
    const auto end = body.find('\n', at) + 1;
    if (body[at] == '.') stuffed_body += '.';
    stuffed_body.append(body, at, end - at);
    at = end;
  }
}
void handle(const epoll_event& event) {
  Connection& c = connections[event.data.u32];
  if (c.state == State::dead) return;
  if (c.state == State::connecting) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(c.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return fail(c, std::string("connect: ") + std::strerror(error));
    if ((event.events & EPOLLOUT) == 0) return;
    c.state = State::greeting;
    watch(c, false);
  }
  if ((event.events & EPOLLOUT) != 0) flush(c);
  if (c.state != State::dead && (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) readable(c);
}

/// Closes connections to peers that have been silent for too long.
void give_up_silent(double t) {
  for (auto& c : connections) {
    if (c.state == State::dead || c.state == State::idle || t - c.moved < options.timeout) continue;
    ++unanswered;
    fail(c, std::string("no answer: ") + kStateNames[static_cast<int>(c.state)]);
  }
}

int run() {
  const int count = options.idle > 0 ? options.idle : options.connections;
  connections.resize(static_cast<std::size_t>(count));
  if (options.idle > 0) options.messages = 0;
  std::vector<epoll_event> events(1024);
  started = now();
  std::size_t begun = 0;
  bool told = false;
  double looked = started;
  if (options.idle > 0) {
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.u32 = 0xffffffff;
    ::epoll_ctl(poller, EPOLL_CTL_ADD, 0, &e);
  }
  while (now() - started < options.limit && stop_asked < 2) {
    bool resting = false;
    if (stop_asked != 0) options.messages = std::min(options.messages, next_message);
    if (options.idle > 0) {
      while (begun < connections.size() &&
             static_cast<long>(begun) - established - connect_failures < options.idle_at_once)
        connect_one(connections[begun++]);
      if (!told && begun == connections.size() && established + connect_failures >= options.idle) {
        report("idle");
        told = true;
      }
    } else {
      long under_way = 0;
      for (auto& c : connections) {
        if (c.state == State::idle && options.rate > 0 && (more_work() || all_done())) {
          next(c);
          flush(c);
        }
        if (c.state == State::dead && more_work()) {
          if (now() >= c.rest_until)
            connect_one(c);
          else
            resting = true;
        }
        under_way += c.state == State::dead || c.state == State::idle ? 0 : 1;
      }
      if (under_way == 0 && all_done()) break;
    }
    const int n = ::epoll_wait(poller, events.data(), static_cast<int>(events.size()),
                               options.rate > 0 ? 1
                               : resting        ? 5
                                                : 50);
    for (int i = 0; i < n; ++i) {
      if (events[static_cast<std::size_t>(i)].data.u32 == 0xffffffff) {
        char drop[64];
        if (::read(0, drop, sizeof drop) <= 0) return 0;  // idle connections live until the end of our input
        continue;
      }
      handle(events[static_cast<std::size_t>(i)]);
    }
    ledger.flush();
    if (const double t = now(); t - looked >= 1) {
      looked = t;
      give_up_silent(t);
    }
  }
  for (auto& c : connections)
    if (c.state == State::body && c.data_sent) note(c, "doubt");
  ledger.flush();
  if (options.idle == 0 || !told) report(options.idle > 0 ? "idle-incomplete" : "load");
  return options.idle == 0 && taken < options.messages ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Sends mail by SMTP over many connections and prints one line of JSON. Exit status 1 when "
      "not every message "
      "was taken.\nEach message has its own X-Load-Id and checksum; --ledger says which were "
      "answered with 250 "
      "(sent), and which were left in doubt. SIGTERM: begins no new message, finishes what it has, "
      "reports; the second one: reports at once."};
  app.add_option("--host", options.host, "address to connect to");
  app.add_option("-p,--port", options.port);
  app.add_option("--unix", options.unix_path, "connect to this path instead");
  app.add_option("-c,--connections", options.connections, "connections at once");
  app.add_option("-n,--messages", options.messages, "messages in all");
  app.add_option("-m,--per-connection", options.per_connection, "messages of one connection; 0: no limit");
  app.add_option("-s,--size", options.size, "bytes of body");
  app.add_option("-r,--recipients", options.recipients, "recipients of each message");
  app.add_option("--domain", options.domain, "domain of the recipients");
  app.add_option("--user", options.user, "local part of all recipients; none: one of its own each");
  app.add_option("--users", options.users, "with a number below this behind it, in turn");
  app.add_option("--domains", options.domains, "spread the recipients over d0.DOMAIN, d1.DOMAIN …; 0: DOMAIN itself");
  app.add_option("--from", options.from, "sender");
  app.add_option("--helo", options.helo);
  app.add_option("--id", options.prefix, "what the X-Load-Id begins with");
  app.add_flag("--pipelining", options.pipelining, "send commands in groups where the server offers it");
  app.add_flag("--bdat", options.bdat, "send content by BDAT where the server offers CHUNKING");
  app.add_flag("--tls", options.tls, "STARTTLS on every connection; certificates are not checked");
  app.add_flag("--dots", options.dots, "begin some lines with a dot");
  app.add_option("--rate", options.rate, "messages per second at most; 0: as fast as they go");
  app.add_option("--retries", options.retries, "how often a refused or interrupted message is tried again");
  app.add_option("--timeout", options.timeout,
                 "seconds of silence after which a connection is given up and counted as unanswered")
      ->check(CLI::PositiveNumber);
  app.add_option("--limit", options.limit, "seconds after which the run ends");
  app.add_option("--ledger", options.ledger, "append what became of the messages to this file");
  app.add_option("--idle", options.idle,
                 "open so many sessions instead, report, and hold them until standard input ends");
  app.add_option("--idle-at-once", options.idle_at_once, "of them in the greeting phase at once");
  app.add_flag("-v,--verbose", options.verbose, "refusals on standard error as they come");
  CLI11_PARSE(app, argc, argv)
  if (options.recipients < 1 || options.connections < 1) die("at least one recipient and one connection");
  target = options.unix_path.empty() ? Address::inet(options.host, options.port) : Address::unix(options.unix_path);
  if (!options.ledger.empty()) ledger.open(options.ledger);
  if (options.tls) tls_context = std::make_unique<TlsContext>(TlsContext::client());
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGTERM, [](int) { stop_asked = stop_asked + 1; });
  raise_fd_limit();
  make_body();
  poller = ::epoll_create1(EPOLL_CLOEXEC);
  return run();
}
