// tls_bench: measures the cost of TLS for a server with one loop: processor time per handshake, how long a burst of
// handshakes delays other sessions, memory of an idle session. The clients run in a process of their own, as does the
// session with the timed answers: it sends a line in clear text each millisecond.
//
//   tls_bench [HANDSHAKES] [IDLE]        prints memory, then a line per kind of handshake
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "lib/base/async/sync.h"
#include "lib/net/tls/session.h"
#include "lib/net/tls/testing/test_certificates.h"
#include "lib/testing/scratch.h"

namespace {

using namespace pen;
using async::Gate;
using async::Loop;
using async::Stream;
using async::Task;
using Contexts = std::shared_ptr<const tls::Context>;

struct Pairs {
  std::vector<Fd> servers, clients;
  explicit Pairs(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      int fds[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) {
        fmt::print(stderr, "socketpair: {}\n", Error::from_errno(errno).message());
        std::exit(1);
      }
      servers.emplace_back(fds[0]);
      clients.emplace_back(fds[1]);
    }
  }
};

double seconds_of(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double wall_seconds() { return seconds_of(CLOCK_MONOTONIC); }

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double size = 0, pages = 0;
  statm >> size >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

template <class T>
T need(Result<T> result) {
  if (result) return *std::move(result);
  fmt::print(stderr, "{}\n", result.error().message());
  std::exit(1);
}

// --- the clients' process

Task<void> client(Stream* stream, Contexts context, std::string key) {
  (void)need(co_await tls::connect(*stream, std::move(context), {.server_name = "mx.example", .session_key = key}, {}));
  (void)need(co_await stream->read_line(100));  // and with it the session's ticket
}

/// Runs one client after the other, until no socket is left.
Task<void> clients(std::vector<std::unique_ptr<Stream>>* streams, std::size_t* begun, std::size_t end, Contexts context,
                   std::string key) {
  while (*begun < end) {
    Stream* const next = (*streams)[(*begun)++].get();
    co_await client(next, context, key);
  }
}

/// Connects every socket, `at_once` at a time, and holds them until the process is killed.
[[noreturn]] void run_clients(Pairs pairs, tls::ContextOptions options, std::size_t at_once, bool resume) {
  pairs.servers.clear();
  Loop loop;
  Gate gate(loop);
  const Contexts context = need(tls::Context::open(std::move(options)));
  std::vector<std::unique_ptr<Stream>> streams;
  for (Fd& fd : pairs.clients) streams.push_back(std::make_unique<Stream>(loop, std::move(fd)));
  std::size_t begun = 0;
  // The first one alone gets the ticket for the others.
  for (const std::size_t end : {std::size_t{1}, streams.size()}) {
    for (std::size_t i = 0; i < std::min(at_once, end); ++i)
      gate.spawn("clients", clients(&streams, &begun, end, context, resume ? "key" : ""));
    while (gate.size() != 0) loop.run_once(milliseconds(100));
  }
  for (;;) ::pause();
}

// --- another session's process

struct Answers {
  double longest = 0, p99 = 0;
};

/// Sends a line, reads the answer and sends again, until the server hangs up; writes the waiting times to `report`.
[[noreturn]] void run_other(const Fd& session, const Fd& report) {
  ::fcntl(session.get(), F_SETFL, 0);  // blocking
  std::vector<double> waits;
  char answer[64];
  for (;;) {
    const double asked = wall_seconds();
    if (::send(session.get(), "NOOP\r\n", 6, MSG_NOSIGNAL) != 6) break;
    if (::recv(session.get(), answer, sizeof answer, 0) <= 0) break;
    waits.push_back(wall_seconds() - asked);
    ::usleep(1000);
  }
  Answers told;
  std::ranges::sort(waits);
  if (!waits.empty()) told = {waits.back(), waits[(waits.size() - 1) * 99 / 100]};
  (void)::write(report.get(), &told, sizeof told);
  ::_exit(0);
}

Task<void> answer(Stream* stream) {
  for (;;) {
    const auto line = co_await stream->read_line(100);
    if (!line) co_return;
    stream->write("250 ok\r\n");
    (void)co_await stream->flush();
  }
}

// --- the server

Task<void> server(Stream* stream, Contexts context, std::size_t* done) {
  (void)need(co_await tls::accept(*stream, std::move(context), {}));
  stream->write("220 ready\r\n");
  (void)co_await stream->flush();
  ++*done;
  (void)co_await stream->read_line(100);  // until the client is gone
}

struct Kind {
  const char* name;
  const char* protocols;
  unsigned rsa;  // bits of the key; 0: P-256
  bool resumed;
};

struct Figures {
  double cpu = 0, longest_turn = 0, bytes = 0;
  Answers other;
};

Figures measure(const Kind& kind, const pen::testing::ScratchDir& dir, std::size_t count, std::size_t at_once) {
  static tls::testing::Authority authority("bench");
  const auto issued = authority.issue({.common_name = "mx.example", .names = {"mx.example"}, .rsa = kind.rsa});
  tls::ContextOptions server_options, client_options;
  server_options.pairs = {
      {dir.write("cert", issued.certificate + authority.certificate()), dir.write("key", issued.key)}};
  server_options.protocols = need(tls::Protocols::parse(kind.protocols));
  server_options.tickets = std::make_shared<tls::TicketKeys>("", seconds(3600), system_clock());
  client_options.role = tls::Role::client;
  client_options.ca_file = dir.write("ca", authority.certificate());
  client_options.sessions = tls::memory_session_cache(10, seconds(3600), system_clock());
  const Contexts context = need(tls::Context::open(server_options));

  Pairs pairs(count);
  const pid_t child = ::fork();
  if (child == 0) run_clients(std::move(pairs), std::move(client_options), at_once, kind.resumed);
  pairs.clients.clear();
  // Only in a burst: the other session's lines cost the server time, too.
  const bool timed = at_once == count;
  Pairs other(1), report(1);
  const pid_t other_child = timed ? ::fork() : -1;
  if (other_child == 0) {
    pairs.servers.clear();
    other.servers.clear();
    run_other(other.clients[0], report.clients[0]);
  }
  other.clients.clear();
  report.clients.clear();
  Figures figures;
  {
    Loop loop;
    Gate gate(loop);
    Stream other_stream(loop, std::move(other.servers[0]));
    gate.spawn("other", answer(&other_stream));
    std::vector<std::unique_ptr<Stream>> streams;
    std::size_t done = 0;
    for (Fd& fd : pairs.servers) streams.push_back(std::make_unique<Stream>(loop, std::move(fd)));
    const double memory = resident_bytes(), before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    std::size_t begun = 0;
    while (done < count) {
      // Take connections as they come, one more than the clients that are busy, so that no client waits for the server.
      for (; begun < count && begun <= done + at_once; ++begun)
        gate.spawn("server", server(streams[begun].get(), context, &done));
      const double turn = seconds_of(CLOCK_THREAD_CPUTIME_ID);
      loop.run_once(milliseconds(100));
      figures.longest_turn = std::max(figures.longest_turn, seconds_of(CLOCK_THREAD_CPUTIME_ID) - turn);
    }
    figures.cpu = (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before) / static_cast<double>(count);
    figures.bytes = (resident_bytes() - memory) / static_cast<double>(count);
    other_stream.close();
    int status = 0;
    if (timed) ::waitpid(other_child, &status, 0);
    if (timed && ::read(report.servers[0].get(), &figures.other, sizeof figures.other) != sizeof figures.other) {
      fmt::print(stderr, "the other session told nothing\n");
      std::exit(1);
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    while (gate.size() != 0) loop.run_once(milliseconds(100));
  }
  return figures;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]).starts_with("-")) {
    fmt::print("tls_bench [HANDSHAKES (500)] [IDLE SESSIONS (2000)]: what TLS costs a server\n");
    return 0;
  }
  const std::size_t count = argc > 1 ? std::stoul(argv[1]) : 500;
  const std::size_t idle = argc > 2 ? std::stoul(argv[2]) : 2000;
  ::signal(SIGPIPE, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const pen::testing::ScratchDir dir;
  const Kind kinds[] = {
      {"ECDSA P-256, TLS 1.3", ">=TLSv1.3", 0, false}, {"ECDSA P-256, TLS 1.2", "<=TLSv1.2", 0, false},
      {"RSA 2048, TLS 1.3", ">=TLSv1.3", 2048, false}, {"RSA 2048, TLS 1.2", "<=TLSv1.2", 2048, false},
      {"RSA 4096, TLS 1.3", ">=TLSv1.3", 4096, false}, {"resumed, TLS 1.3", ">=TLSv1.3", 2048, true},
      {"resumed, TLS 1.2", "<=TLSv1.2", 2048, true}};
  // Each kind in a process of its own, so that its memory grows by what it keeps, and reuses nothing of another kind.
  for (const Kind& kind : {kinds[0], kinds[1], kinds[5]}) {
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
      const Figures figures = measure(kind, dir, idle, 50);
      fmt::print("idle session, {:<22} {:>8.1f} kB with its stream\n", kind.name, figures.bytes / 1000);
      std::fflush(stdout);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
  }
  fmt::print("{:<22} {:>9} {:>11} {:>13}   {}\n", "handshake", "CPU each", "per second", "longest turn",
             "200 at once: longest turn, another session's longest wait, its 99 %");
  for (const Kind& kind : kinds) {
    const Figures alone = measure(kind, dir, count, 1);
    const Figures burst = measure(kind, dir, 200, 200);
    fmt::print("{:<22} {:>6.0f} us {:>11.0f} {:>10.2f} ms   {:>10.2f} ms {:>10.2f} ms {:>10.2f} ms\n", kind.name,
               alone.cpu * 1e6, 1 / alone.cpu, alone.longest_turn * 1e3, burst.longest_turn * 1e3,
               burst.other.longest * 1e3, burst.other.p99 * 1e3);
    std::fflush(stdout);
  }
  return 0;
}
