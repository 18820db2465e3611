// pensink: an SMTP or LMTP server that accepts everything, keeps a ledger, and misbehaves on demand. It has one thread.
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <deque>
#include <memory>
#include <queue>
#include <unordered_set>

#include "bench/bench_tls.h"

using namespace pen::bench;

namespace {

/// "N" or "N:CODE text": do something at every Nth occurrence.
struct Every {
  long n = 0;
  std::string reply;
  long seen = 0;
  void parse(const std::string& text, const char* standard) {
    const auto colon = text.find(':');
    n = std::atol(text.c_str());
    reply = colon == std::string::npos ? standard : text.substr(colon + 1);
    if (n <= 0) die("every Nth: N must be positive: " + text);
  }
  bool hit() { return n > 0 && ++seen % n == 0; }
};

struct Options {
  std::string host = "127.0.0.1", unix_path, ledger, save, count_file, name = "sink.example", certificate, key;
  int port = 0;
  bool lmtp = false, no_pipelining = false, chunking = false, no_8bitmime = false, no_ehlo = false, dsn = false;
  bool smtputf8 = false, binarymime = false, no_enhanced = false, quickack = false, go_ahead = false, detail = false;
  long long size = 104857600;
  // seconds
  double delay = 0, greeting_delay = 0, ehlo_delay = 0, mail_delay = 0, rcpt_delay = 0, data_delay = 0, dot_delay = 0;
  bool one_by_one = false;
  long max_rcpt = 0, max_messages = 0;
  Every refuse_mail, refuse_rcpt, refuse_data, refuse_dot, drop_dot, drop_command, close_421;
} options;

struct Connection {
  int fd = -1;
  std::unique_ptr<TlsSession> tls;
  bool start_tls = false;  // once the bytes in `out` have left
  unsigned generation = 0;
  std::string in, out;
  std::size_t out_at = 0;
  std::deque<std::pair<double, std::string>> later;
  double last_due = 0;
  bool writing = false, quit = false, greeted = false, mail = false;
  enum class Mode { command, data, bdat } mode = Mode::command;
  std::size_t bdat_left = 0;
  bool bdat_last = false, bdat_ok = false;
  std::vector<std::string> recipients;
  long messages = 0;
  // The message coming in.
  std::string header, id;
  bool header_done = false, line_start = true;
  std::uint64_t size = 0;
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash{nullptr, XXH3_freeState};
  std::string saved;
};

int poller = -1;
std::vector<std::unique_ptr<Connection>> connections;  // by descriptor
struct Due {
  double at;
  int fd;
  unsigned generation;
  bool operator<(const Due& o) const { return at > o.at; }
};
std::priority_queue<Due> due;
LedgerFile ledger;
std::unique_ptr<TlsContext> tls_context;  // null: STARTTLS is not offered
std::unordered_set<std::uint64_t> seen;
long messages = 0, recipients = 0, duplicates = 0, without_id = 0, opened = 0, live = 0, most_live = 0, refused = 0;
std::uint64_t bytes = 0;
double first_at = 0, last_at = 0;
unsigned generations = 0;
long saved_files = 0;

void print_counts() {
  std::FILE* to = options.count_file.empty() ? stdout : std::fopen(options.count_file.c_str(), "a");
  if (!to) die(options.count_file + ": " + std::strerror(errno));
  std::fprintf(to,
               "{\"messages\":%ld,\"recipients\":%ld,\"unique\":%zu,\"duplicates\":%ld,\"without_"
               "id\":%ld,\"refused\":%ld,"
               "\"bytes\":%llu,\"connections\":%ld,\"live\":%ld,\"most_live\":%ld,\"seconds\":%.4f,"
               "\"cpu_s\":%.3f}\n",
               messages, recipients, seen.size(), duplicates, without_id, refused,
               static_cast<unsigned long long>(bytes), opened, live, most_live, last_at - first_at, cpu_seconds());
  if (to == stdout)
    std::fflush(to);
  else
    std::fclose(to);
}

void watch(Connection& c, bool write) {
  if (c.writing == write) return;
  epoll_event e{};
  e.events = EPOLLIN | (write ? EPOLLOUT : 0u);
  e.data.fd = c.fd;
  ::epoll_ctl(poller, EPOLL_CTL_MOD, c.fd, &e);
  c.writing = write;
}
void close_connection(Connection& c) {
  --live;
  const int fd = c.fd;
  ::close(fd);
  connections[static_cast<std::size_t>(fd)].reset();
}
/// False: the connection has ended.
bool flush(Connection& c) {
  while (c.out_at < c.out.size()) {
    const ssize_t n = tls_send(c.fd, c.tls.get(), c.out.data() + c.out_at, c.out.size() - c.out_at, MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EAGAIN) {
        watch(c, !c.tls || !c.tls->wants_read());
        return true;
      }
      close_connection(c);
      return false;
    }
    c.out_at += static_cast<std::size_t>(n);
  }
  c.out.clear();
  c.out_at = 0;
  if (c.quit && c.later.empty()) {
    close_connection(c);
    return false;
  }
  if (c.start_tls && c.later.empty()) {
    c.tls = tls_context->open(c.fd);
    c.start_tls = c.mail = false;
    c.in.clear();  // clear text behind STARTTLS is not for the encrypted session
  }
  watch(c, false);
  return true;
}
void reply(Connection& c, std::string_view text, double extra = 0) {
  std::string line(text);
  line += "\r\n";
  const double delay = options.delay + extra;
  if (delay <= 0 && c.later.empty()) {
    c.out += line;
    return;
  }
  c.last_due = options.one_by_one ? std::max(now(), c.last_due) + delay : std::max(now() + delay, c.last_due);
  c.later.emplace_back(c.last_due, std::move(line));
  due.push({c.last_due, c.fd, c.generation});
}

void begin_content(Connection& c) {
  c.header.clear();
  c.id.clear();
  c.saved.clear();
  c.header_done = false;
  c.line_start = true;
  c.size = 0;
  if (!c.hash) c.hash.reset(XXH3_createState());
  XXH3_64bits_reset(c.hash.get());
}
/// Content bytes without dot-stuffing: the header is kept, the rest only summed up.
void content(Connection& c, const char* at, std::size_t size) {
  c.size += size;
  if (!options.save.empty()) c.saved.append(at, size);
  if (!c.header_done) {
    const std::size_t before = c.header.size();
    c.header.append(at, size);
    const auto end = c.header.find("\r\n\r\n", before < 3 ? 0 : before - 3);
    if (end == std::string::npos && c.header.size() < 262144) return;
    c.header_done = true;
    const std::size_t head = end == std::string::npos ? c.header.size() : end + 4;
    XXH3_64bits_update(c.hash.get(), c.header.data() + head, c.header.size() - head);
    c.header.resize(head);
    return;
  }
  XXH3_64bits_update(c.hash.get(), at, size);
}
std::string load_id(const std::string& header) {
  static const std::string kField = "X-Load-Id: ";
  for (std::size_t at = 0; at < header.size();) {
    const auto end = std::min(header.find("\r\n", at), header.size());
    if (header.compare(at, kField.size(), kField) == 0)
      return header.substr(at + kField.size(), end - at - kField.size());
    at = end + 2;
  }
  return {};
}
/// The queue id at the host that sent the message: the word after "id" in the topmost Received field; "-": none.
std::string queue_id(const std::string& header) {
  const auto field = header.find("Received:");
  if (field == std::string::npos) return "-";
  std::size_t end = field;
  do {
    end = std::min(header.find("\r\n", end + 1), header.size());
  } while (end + 2 < header.size() && (header[end + 2] == ' ' || header[end + 2] == '\t'));
  for (std::size_t at = field; (at = header.find("id ", at)) < end; ++at) {
    const char before = header[at - 1];
    if (before != ' ' && before != '\t' && before != '\n') continue;
    const auto word_end = std::min(header.find_first_of("; \t\r", at + 3), end);
    return header.substr(at + 3, word_end - at - 3);
  }
  return "-";
}
void accept_for(Connection& c, const std::string& recipient, std::uint64_t checksum) {
  ++recipients;
  if (c.id.empty()) {
    ++without_id;
    return;
  }
  const std::string key = c.id + " " + recipient;
  if (!seen.insert(XXH3_64bits(key.data(), key.size())).second) ++duplicates;
  if (!ledger.on()) return;
  ledger_line(ledger.text, "took", c.id, checksum, recipient);
  if (options.detail) {
    ledger.text.pop_back();
    char when[32];
    std::snprintf(when, sizeof when, " %.6f ", now());
    ledger.text += when + queue_id(c.header) + "\n";
  }
}
void end_message(Connection& c) {
  c.id = load_id(c.header);
  const std::uint64_t checksum = c.header_done ? XXH3_64bits_digest(c.hash.get()) : 0;
  const double t = now();
  if (first_at == 0) first_at = t;
  last_at = t;
  // the message is not taken; the client that waits for the reply is left in doubt
  if (options.drop_dot.hit()) {
    c.quit = true;
    c.later.clear();
    c.out.clear();
    return;
  }
  bool any = false;
  auto answer = [&](const std::vector<std::string>& to) {
    if (options.refuse_dot.hit()) {
      ++refused;
      reply(c, options.refuse_dot.reply, options.dot_delay);
      return;
    }
    any = true;
    for (const auto& r : to) accept_for(c, r, checksum);
    ledger.flush();
    reply(c, "250 2.0.0 Ok: queued as " + std::to_string(messages + 1), options.dot_delay);
  };
  if (options.lmtp) {
    for (const auto& r : c.recipients) answer({r});
  } else {
    answer(c.recipients);
  }
  if (any) {
    ++messages;
    bytes += c.size;
    if (!options.save.empty()) {
      const std::string path = options.save + "/" + std::to_string(++saved_files);
      std::FILE* f = std::fopen(path.c_str(), "w");
      if (!f) die(path + ": " + std::strerror(errno));
      std::fwrite(c.saved.data(), 1, c.saved.size(), f);
      std::fclose(f);
    }
  }
  ++c.messages;
  c.recipients.clear();
  c.mail = false;
  if (options.max_messages > 0 && c.messages >= options.max_messages) {
    reply(c, "421 4.7.0 enough messages for one connection");
    c.quit = true;
  }
}

std::string_view path_in(std::string_view line) {
  const auto from = line.find('<');
  const auto to = line.find('>', from == std::string_view::npos ? 0 : from);
  if (from == std::string_view::npos || to == std::string_view::npos) return line;
  return line.substr(from + 1, to - from - 1);
}
void offer(Connection& c) {
  std::string text = "250-" + options.name;
  if (!options.no_pipelining) text += "\r\n250-PIPELINING";
  if (options.chunking) text += "\r\n250-CHUNKING";
  if (options.binarymime) text += "\r\n250-BINARYMIME";
  if (!options.no_8bitmime) text += "\r\n250-8BITMIME";
  if (tls_context && !c.tls) text += "\r\n250-STARTTLS";
  if (options.dsn) text += "\r\n250-DSN";
  if (options.smtputf8) text += "\r\n250-SMTPUTF8";
  if (!options.no_enhanced) text += "\r\n250-ENHANCEDSTATUSCODES";
  text += options.size >= 0 ? "\r\n250 SIZE " + std::to_string(options.size) : "\r\n250 HELP";
  reply(c, text, options.ehlo_delay);
}
void take_recipient(Connection& c, std::string_view path) {
  if (!c.mail) {
    reply(c, "503 5.5.1 MAIL first");
  } else if (options.refuse_rcpt.hit()) {
    ++refused;
    reply(c, options.refuse_rcpt.reply);
  } else if (options.max_rcpt > 0 && static_cast<long>(c.recipients.size()) >= options.max_rcpt) {
    reply(c, "452 4.5.3 too many recipients");
  } else {
    c.recipients.emplace_back(path);
    reply(c, "250 2.1.5 Ok", options.rcpt_delay);
  }
}
void command(Connection& c, std::string_view line) {
  auto is = [&](std::string_view word) {
    return line.size() >= word.size() && ::strncasecmp(line.data(), word.data(), word.size()) == 0;
  };
  if (options.drop_command.hit()) {
    c.quit = true;
    return;
  }
  if (options.close_421.hit()) {
    reply(c, "421 4.3.2 " + options.name + " going away");
    c.quit = true;
    return;
  }
  if (is("EHLO") || is("LHLO")) {
    if (options.no_ehlo || is("LHLO") != options.lmtp) {
      reply(c, "502 5.5.1 not here");
      return;
    }
    offer(c);
  } else if (is("HELO")) {
    reply(c, "250 " + options.name);
  } else if (is("MAIL FROM:")) {
    if (c.mail) {
      reply(c, "503 5.5.1 nested MAIL");
    } else if (options.refuse_mail.hit()) {
      ++refused;
      reply(c, options.refuse_mail.reply);
    } else {
      c.mail = true;
      c.recipients.clear();
      reply(c, "250 2.1.0 Ok", options.mail_delay);
    }
  } else if (is("RCPT TO:")) {
    take_recipient(c, path_in(line));
  } else if (is("DATA")) {
    if (c.recipients.empty() && !(options.go_ahead && c.mail)) {
      reply(c, "503 5.5.1 no valid recipients");
    } else if (options.refuse_data.hit()) {
      ++refused;
      reply(c, options.refuse_data.reply);
    } else {
      c.mode = Connection::Mode::data;
      begin_content(c);
      reply(c, "354 end with a dot", options.data_delay);
    }
  } else if (is("BDAT ")) {
    if (c.mode == Connection::Mode::command) {
      char* end = nullptr;
      c.bdat_left = std::strtoul(line.data() + 5, &end, 10);
      c.bdat_last = line.size() >= 4 && ::strncasecmp(line.data() + line.size() - 4, "LAST", 4) == 0;
      if (!c.bdat_ok) begin_content(c);
      c.bdat_ok = true;
      c.mode = Connection::Mode::bdat;
    }
  } else if (is("STARTTLS") && tls_context && !c.tls) {
    reply(c, "220 2.0.0 Ready to start TLS");
    c.start_tls = true;
  } else if (is("RSET")) {
    c.mail = c.bdat_ok = false;
    c.recipients.clear();
    reply(c, "250 2.0.0 Ok");
  } else if (is("NOOP")) {
    reply(c, "250 2.0.0 Ok");
  } else if (is("QUIT")) {
    reply(c, "221 2.0.0 Bye");
    c.quit = true;
  } else {
    reply(c, "500 5.5.2 unknown command");
  }
}
/// Takes data lines up to the end; false when more input is needed.
bool take_data(Connection& c, std::size_t& at) {
  const std::string& in = c.in;
  while (at < in.size()) {
    if (c.line_start) {
      if (in[at] == '.') {
        if (in.size() - at < 3) return false;
        if (in[at + 1] == '\r' && in[at + 2] == '\n') {
          at += 3;
          return true;
        }
        ++at;  // stuffed
      }
      c.line_start = false;
    }
    // Take everything up to the next line that begins with a dot, or the end, in one piece.
    std::size_t from = at;
    while (true) {
      const auto lf = in.find('\n', from);
      if (lf == std::string::npos) {
        from = in.size();
        break;
      }
      from = lf + 1;
      if ((lf > 0 && in[lf - 1] == '\r') && (from >= in.size() || in[from] == '.')) {
        c.line_start = true;
        break;
      }
    }
    // A CR at the very end may be half of a line end: leave it for the next time.
    if (!c.line_start && from == in.size() && in.back() == '\r') {
      content(c, in.data() + at, from - at - 1);
      at = from - 1;
      return false;
    }
    content(c, in.data() + at, from - at);
    at = from;
  }
  return false;
}
void feed(Connection& c) {
  std::size_t at = 0;
  while (!c.quit && !c.start_tls) {
    if (c.mode == Connection::Mode::data) {
      if (!take_data(c, at)) break;
      c.mode = Connection::Mode::command;
      if (c.recipients.empty()) {
        reply(c, "554 5.5.1 no valid recipients");
        c.mail = false;
      } else {
        end_message(c);
      }
      continue;
    }
    if (c.mode == Connection::Mode::bdat) {
      const auto n = std::min(c.bdat_left, c.in.size() - at);
      content(c, c.in.data() + at, n);
      at += n;
      c.bdat_left -= n;
      if (c.bdat_left > 0) break;
      c.mode = Connection::Mode::command;
      if (c.recipients.empty()) {
        c.bdat_ok = false;
        reply(c, "503 5.5.1 no valid recipients");
      } else if (c.bdat_last) {
        c.bdat_ok = false;
        end_message(c);
      } else {
        reply(c, "250 2.0.0 chunk taken");
      }
      continue;
    }
    const auto lf = c.in.find('\n', at);
    if (lf == std::string::npos) break;
    std::size_t end = lf;
    if (end > at && c.in[end - 1] == '\r') --end;
    const std::string line = c.in.substr(at, end - at);
    at = lf + 1;
    command(c, line);
  }
  c.in.erase(0, at);
}
void greet(Connection& c) {
  c.greeted = true;
  reply(c, "220 " + options.name + (options.lmtp ? " LMTP" : " ESMTP"), options.greeting_delay);
  flush(c);
}
int listen_socket() {
  const bool local = !options.unix_path.empty();
  Address a = local ? Address::unix(options.unix_path) : Address::inet(options.host, options.port);
  if (local) ::unlink(options.unix_path.c_str());
  const int fd = ::socket(a.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (fd < 0 || ::bind(fd, a.get(), a.size) != 0 || ::listen(fd, 4096) != 0)
    die(std::string("listen: ") + std::strerror(errno));
  if (!local) {
    sockaddr_storage s{};
    socklen_t size = sizeof s;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&s), &size);
    std::uint16_t port = 0;
    std::memcpy(&port, reinterpret_cast<char*>(&s) + 2, 2);
    std::printf("port %d\n", ntohs(port));
  } else {
    std::printf("path %s\n", options.unix_path.c_str());
  }
  std::fflush(stdout);
  return fd;
}
void accept_all(int listener) {
  for (;;) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;
    if (options.unix_path.empty()) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connections.size() <= static_cast<std::size_t>(fd)) connections.resize(static_cast<std::size_t>(fd) + 1024);
    auto c = std::make_unique<Connection>();
    c->fd = fd;
    c->generation = ++generations;
    ++opened;
    most_live = std::max(most_live, ++live);
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.fd = fd;
    ::epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
    auto& placed = connections[static_cast<std::size_t>(fd)] = std::move(c);
    greet(*placed);
  }
}
void readable(Connection& c) {
  static char buffer[262144];
  const ssize_t n = tls_recv(c.fd, c.tls.get(), buffer, sizeof buffer);
  if (n == 0 || (n < 0 && errno != EAGAIN)) {
    close_connection(c);
    return;
  }
  if (n < 0) return;
  if (options.quickack) {
    const int on = 1;
    ::setsockopt(c.fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
  }
  c.in.append(buffer, static_cast<std::size_t>(n));
  feed(c);
  flush(c);
}
void say_due() {
  const double t = now();
  while (!due.empty() && due.top().at <= t) {
    const Due d = due.top();
    due.pop();
    auto& c = connections[static_cast<std::size_t>(d.fd)];
    if (!c || c->generation != d.generation || c->later.empty()) continue;
    c->out += c->later.front().second;
    c->later.pop_front();
    flush(*c);
  }
}

/// Options that main() takes into other units or forms.
struct Words {
  std::string mail, rcpt, data, dot, drop_dot, drop, leave, ledger_path;
  double delay_ms = 0, greeting_ms = 0, ehlo_ms = 0, mail_ms = 0, rcpt_ms = 0, data_ms = 0, dot_ms = 0;
};
void add_options(CLI::App& app, Words& w) {
  app.add_option("--host", options.host, "address to listen on");
  app.add_option("-p,--port", options.port, "port; 0 chooses a free one");
  app.add_option("--unix", options.unix_path, "listen on this path instead");
  app.add_option("--name", options.name, "own name in greeting and EHLO");
  app.add_flag("--lmtp", options.lmtp, "speak LMTP: one reply for each recipient");
  app.add_flag("--no-pipelining", options.no_pipelining);
  app.add_flag("--chunking", options.chunking, "offer CHUNKING");
  app.add_flag("--binarymime", options.binarymime, "offer BINARYMIME");
  app.add_flag("--no-8bitmime", options.no_8bitmime);
  app.add_flag("--dsn", options.dsn, "offer DSN");
  app.add_flag("--smtputf8", options.smtputf8, "offer SMTPUTF8");
  app.add_flag("--no-enhanced", options.no_enhanced, "do not offer ENHANCEDSTATUSCODES");
  app.add_flag("--no-ehlo", options.no_ehlo, "refuse EHLO");
  app.add_option("--size", options.size, "SIZE limit offered; -1: not offered");
  app.add_option("--delay", w.delay_ms, "milliseconds before each reply");
  app.add_option("--greeting-delay", w.greeting_ms, "milliseconds more before the greeting");
  app.add_option("--ehlo-delay", w.ehlo_ms, "milliseconds more before the reply to EHLO");
  app.add_option("--mail-delay", w.mail_ms, "milliseconds more before the reply to MAIL");
  app.add_option("--rcpt-delay", w.rcpt_ms, "milliseconds more before the reply to RCPT");
  app.add_option("--data-delay", w.data_ms, "milliseconds more before the reply to DATA");
  app.add_option("--dot-delay", w.dot_ms, "milliseconds more before the reply to end-of-data");
  app.add_flag("--one-by-one", options.one_by_one,
               "as servers do: a command is looked at when the one before it has been answered, so "
               "that the delays of what was sent ahead add up");
  app.add_option("--max-rcpt", options.max_rcpt, "452 beyond so many recipients");
  app.add_option("--max-messages", options.max_messages, "421 and close after so many messages of a connection");
  app.add_option("--refuse-mail", w.mail, "EVERY: refuse MAIL");
  app.add_option("--refuse-rcpt", w.rcpt, "EVERY: refuse RCPT");
  app.add_option("--refuse-data", w.data, "EVERY: refuse DATA");
  app.add_option("--refuse-dot", w.dot, "EVERY: refuse the message");
  app.add_option("--drop-dot", w.drop_dot, "EVERY: hang up at end-of-data without taking the message");
  app.add_option("--drop", w.drop, "EVERY: hang up at a command");
  app.add_option("--close-421", w.leave, "EVERY: 421 to a command and hang up");
  app.add_flag("--go-ahead", options.go_ahead, "354 to DATA without recipients, 554 after the dot");
  app.add_flag("--quickack", options.quickack, "acknowledge at once (TCP_QUICKACK)");
  app.add_option("--tls-cert", options.certificate, "offer STARTTLS with the certificate chain in this file");
  app.add_option("--tls-key", options.key, "and its private key");
  app.add_option("--ledger", w.ledger_path, "append what was taken to this file");
  app.add_flag("--detail", options.detail,
               "ledger lines end with the monotonic time in seconds and the queue id of the topmost Received field");
  app.add_option("--save", options.save, "write each message taken into this directory as 1, 2, 3 …");
  app.add_option("--count-file", options.count_file, "append the counts to this file instead of standard output");
}
void take(const Words& w) {
  options.delay = w.delay_ms / 1e3;
  options.greeting_delay = w.greeting_ms / 1e3;
  options.ehlo_delay = w.ehlo_ms / 1e3;
  options.mail_delay = w.mail_ms / 1e3;
  options.rcpt_delay = w.rcpt_ms / 1e3;
  options.data_delay = w.data_ms / 1e3;
  options.dot_delay = w.dot_ms / 1e3;
  if (!w.mail.empty()) options.refuse_mail.parse(w.mail, "450 4.1.8 not this sender now");
  if (!w.rcpt.empty()) options.refuse_rcpt.parse(w.rcpt, "550 5.1.1 no such user");
  if (!w.data.empty()) options.refuse_data.parse(w.data, "451 4.3.0 not now");
  if (!w.dot.empty()) options.refuse_dot.parse(w.dot, "451 4.3.0 try again");
  if (!w.drop_dot.empty()) options.drop_dot.parse(w.drop_dot, "");
  if (!w.drop.empty()) options.drop_command.parse(w.drop, "");
  if (!w.leave.empty()) options.close_421.parse(w.leave, "");
  if (!w.ledger_path.empty()) ledger.open(w.ledger_path);
  if (!options.certificate.empty())
    tls_context = std::make_unique<TlsContext>(TlsContext::server(options.certificate, options.key));
}
/// Until SIGTERM or SIGINT.
void serve(int listener, int signal_fd) {
  std::vector<epoll_event> events(512);
  for (;;) {
    int wait = -1;
    if (!due.empty()) wait = std::max(0, static_cast<int>((due.top().at - now()) * 1e3 + 0.999));
    const int n = ::epoll_wait(poller, events.data(), static_cast<int>(events.size()), wait);
    for (int i = 0; i < n; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == listener) {
        accept_all(fd);
      } else if (fd == signal_fd) {
        signalfd_siginfo info{};
        while (::read(fd, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
          print_counts();
          if (info.ssi_signo != SIGUSR1) return;
        }
      } else {
        const auto what = events[static_cast<std::size_t>(i)].events;
        auto& slot = connections[static_cast<std::size_t>(fd)];
        if (slot && (what & EPOLLOUT) != 0 && !flush(*slot)) continue;
        if (slot && (what & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) readable(*slot);
      }
    }
    say_due();
    ledger.flush();
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Takes mail by SMTP or LMTP, keeps a ledger, and misbehaves on demand. Prints \"port N\" "
      "when ready and its "
      "counts as JSON on SIGUSR1, SIGTERM and SIGINT.\nEVERY is N or N:REPLY, done at every Nth "
      "occurrence."};
  Words words;
  add_options(app, words);
  CLI11_PARSE(app, argc, argv)
  take(words);

  raise_fd_limit();
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int s : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals, s);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const int signal_fd = ::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
  poller = ::epoll_create1(EPOLL_CLOEXEC);
  const int listener = listen_socket();
  for (const int fd : {listener, signal_fd}) {
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.fd = fd;
    ::epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
  }
  serve(listener, signal_fd);
  return 0;
}
