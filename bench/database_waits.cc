// What a look-up in a database costs as tables make it (lib/map, an Asker and its pools), and for PostgreSQL what it
// would cost without anything around it: the same queries over the same number of connections, sent and read by
// libpq's calls that do not block, in one poll() loop.
//
//   database_waits pgsql|mysql|redis|…|poll TABLE.cf LOOKUPS AT_ONCE
//
// The table file is that of a table of the type; for poll that of a pgsql: table with a query that has the key as '%s';
// its hosts, user, password and dbname are read. Printed are look-ups a second, processor time and context switches
// for each. docs/decisions/023 has figures.
#include <fmt/core.h>
#include <libpq-fe.h>
#include <poll.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/async/loop.h"
#include "lib/base/text.h"
#include "lib/map/ask.h"
#include "lib/map/map.h"

using namespace pen;

namespace {

constexpr std::size_t kConnections = 8;  // as a pool has
// A multiple of 64, so that up to so many sessions, each with every 64th key, never ask the same.
constexpr std::size_t kKeys = 64 * 78;

std::string key_of(std::size_t i) { return "user" + std::to_string(i % kKeys) + "@x.example"; }

[[noreturn]] void fatal(const std::string& why) {
  fmt::print(stderr, "database_waits: {}\n", why);
  std::exit(1);
}

async::Task<void> session(map::Asker* tables, std::shared_ptr<map::Map> table, std::size_t first, std::size_t count,
                          std::size_t step, std::size_t* running) {
  // Sessions ask different keys at a time: the same would share one look-up.
  for (std::size_t i = 0; i < count; ++i) {
    const std::string key = key_of(first + i * step);
    const auto value = co_await tables->ask([table, key] { return table->lookup(key); });
    if (!value) fatal(value.error().message());
  }
  --*running;
}

void through_table(const std::string& spec, std::size_t lookups, std::size_t at_once) {
  async::Loop loop;
  map::Asker tables(loop);
  const auto table = map::open(spec);
  if (!table) fatal(table.error().message());
  std::size_t running = at_once;
  for (std::size_t s = 0; s < at_once; ++s)
    loop.spawn("session", session(&tables, *table, s, lookups / at_once, at_once, &running));
  while (running != 0) loop.run_once(milliseconds(50));
  if (tables.counts().joined != 0) fatal("look-ups were shared");
}

struct Connection {
  PGconn* pg = nullptr;
  bool asking = false;
};

void ask(Connection& c, const std::string& query, const std::string& key) {
  std::vector<char> quoted(2 * key.size() + 1);
  int error = 0;
  PQescapeStringConn(c.pg, quoted.data(), key.data(), key.size(), &error);
  std::string sql = query;
  if (const auto at = sql.find("%s"); at != std::string::npos) sql.replace(at, 2, quoted.data());
  if (PQsendQueryParams(c.pg, sql.c_str(), 0, nullptr, nullptr, nullptr, nullptr, 0) == 0 ||
      PQsetSingleRowMode(c.pg) == 0 || PQflush(c.pg) < 0)
    fatal(PQerrorMessage(c.pg));
  c.asking = true;
}

/// Takes what has come. True: the question is answered.
bool take(Connection& c) {
  if (PQconsumeInput(c.pg) == 0) fatal(PQerrorMessage(c.pg));
  while (PQisBusy(c.pg) == 0) {
    PGresult* const result = PQgetResult(c.pg);
    if (result == nullptr) {
      c.asking = false;
      return true;
    }
    const auto status = PQresultStatus(result);
    if (status != PGRES_SINGLE_TUPLE && status != PGRES_TUPLES_OK) fatal(PQerrorMessage(c.pg));
    PQclear(result);
  }
  return false;
}

void in_one_poll(const std::map<std::string, std::string>& settings, std::size_t lookups, std::size_t at_once) {
  std::vector<Connection> connections(std::min(at_once, kConnections));
  std::string host = settings.at("hosts"), port = "5432";
  if (host.starts_with("inet:")) host.erase(0, 5);
  if (const auto colon = host.rfind(':'); colon != std::string::npos) {
    port = host.substr(colon + 1);
    host.resize(colon);
  }
  for (Connection& c : connections) {
    const char* names[] = {"host", "port", "user", "password", "dbname", nullptr};
    const char* values[] = {host.c_str(),
                            port.c_str(),
                            settings.at("user").c_str(),
                            settings.at("password").c_str(),
                            settings.at("dbname").c_str(),
                            nullptr};
    c.pg = PQconnectdbParams(names, values, 0);
    if (PQstatus(c.pg) != CONNECTION_OK || PQsetnonblocking(c.pg, 1) != 0) fatal(PQerrorMessage(c.pg));
  }
  std::size_t asked = 0, answered = 0;
  std::vector<pollfd> fds(connections.size());
  while (answered < lookups) {
    for (std::size_t i = 0; i < connections.size(); ++i) {
      if (!connections[i].asking && asked < lookups) ask(connections[i], settings.at("query"), key_of(asked++));
      fds[i] = {PQsocket(connections[i].pg), POLLIN, 0};
    }
    if (::poll(fds.data(), fds.size(), -1) < 0) fatal("poll");
    for (std::size_t i = 0; i < connections.size(); ++i)
      if (fds[i].revents != 0 && connections[i].asking && take(connections[i])) ++answered;
  }
  for (Connection& c : connections) PQfinish(c.pg);
}

std::map<std::string, std::string> settings_of(const std::string& file) {
  std::map<std::string, std::string> settings{{"user", ""}, {"password", ""}, {"dbname", ""}, {"hosts", "localhost"}};
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (const auto equals = line.find('='); equals != std::string::npos)
      settings[std::string(trim(line.substr(0, equals)))] = trim(line.substr(equals + 1));
  if (!settings.contains("query")) fatal(file + ": no query");
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) fatal("usage: database_waits TYPE|poll TABLE.cf LOOKUPS AT_ONCE");
  const std::string mode = argv[1];
  const std::size_t lookups = parse_unsigned(argv[3]).value_or(0), at_once = parse_unsigned(argv[4]).value_or(0);
  if (lookups == 0 || at_once == 0 || at_once > lookups)
    fatal("usage: database_waits TYPE|poll TABLE.cf LOOKUPS AT_ONCE");
  const auto began = std::chrono::steady_clock::now();
  if (mode == "poll")
    in_one_poll(settings_of(argv[2]), lookups, at_once);
  else
    through_table(mode + ":" + argv[2], lookups, at_once);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto micro = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
  };
  const auto each = [&](double total) { return total / static_cast<double>(lookups); };
  fmt::print(
      "{} at once {}: {:.0f} look-ups/s; each {:.1f} us processor time ({:.1f} us in the kernel), {:.2f} waits, "
      "{:.2f} times put aside\n",
      mode, at_once, static_cast<double>(lookups) / took, each(micro(used.ru_utime) + micro(used.ru_stime)),
      each(micro(used.ru_stime)), each(static_cast<double>(used.ru_nvcsw)), each(static_cast<double>(used.ru_nivcsw)));
  return 0;
}
