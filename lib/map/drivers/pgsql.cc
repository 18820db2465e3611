/// pgsql: tables, with libpq.
///
/// Quoting: '…' by the connection's character set (PQescapeStringConn). One statement per look-up.
/// Waiting: questions are asked in steps. Connecting waits in poll(), but for the name service look-ups of libpq. A
///          query that takes too long, or gives too many rows, is cancelled at the server when its connection ends.
#include <libpq-fe.h>

#include <vector>

#include "lib/map/drivers/module.h"

namespace pen::map::database {
namespace {

std::string why(PGconn* connection) {
  std::string text = PQerrorMessage(connection);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

class PgsqlConnection final : public Connection {
 public:
  explicit PgsqlConnection(PGconn* connection) : connection_(connection) {}
  ~PgsqlConnection() override {
    if (under_way_) cancel();
    PQfinish(connection_);
  }
  PgsqlConnection(const PgsqlConnection&) = delete;
  PgsqlConnection& operator=(const PgsqlConnection&) = delete;

  Report ask(const Lookup& lookup) override { return ask_by_steps(*this, lookup); }
  bool in_steps() const override { return true; }

  std::optional<Report> begin(const Lookup& lookup) override {
    const auto sql =
        lookup.expand("query", [this](std::string_view part, std::string& out) { return quote(part, out); });
    if (!sql || sql->find('\0') != std::string::npos) return Report{Outcome::refused, "the key cannot be quoted"};
    report_ = {};
    // The extended protocol takes one statement only.
    if (PQsendQueryParams(connection_, sql->c_str(), 0, nullptr, nullptr, nullptr, nullptr, 0) == 0 ||
        PQsetSingleRowMode(connection_) == 0)
      return lost();
    under_way_ = true;
    unsent_ = PQflush(connection_);
    if (unsent_ < 0) return lost();
    return std::nullopt;
  }

  std::optional<Report> step(const Lookup& lookup) override {
    if (PQconsumeInput(connection_) == 0) return lost();
    for (;;) {
      unsent_ = PQflush(connection_);
      if (unsent_ < 0) return lost();
      if (unsent_ > 0 || PQisBusy(connection_) != 0) return std::nullopt;
      PGresult* result = PQgetResult(connection_);
      if (result == nullptr) {
        under_way_ = false;
        return report_;
      }
      const bool more = take(result, lookup, report_);
      PQclear(result);
      if (!more) {  // the rest of the rows is not wanted
        report_.reusable = false;
        return report_;
      }
    }
  }

  Waits waits() const override { return {.fd = PQsocket(connection_), .write = unsent_ > 0}; }

 private:
  bool quote(std::string_view part, std::string& out) const {
    std::vector<char> quoted(2 * part.size() + 1);
    int error = 0;
    const std::size_t size = PQescapeStringConn(connection_, quoted.data(), part.data(), part.size(), &error);
    out.append(quoted.data(), size);
    return error == 0;
  }

  /// False: no more is wanted.
  bool take(PGresult* result, const Lookup& lookup, Report& report) {
    switch (PQresultStatus(result)) {
      case PGRES_SINGLE_TUPLE:
      case PGRES_TUPLES_OK:
        for (int row = 0; row < PQntuples(result); ++row)
          for (int column = 0; column < PQnfields(result); ++column) {
            if (PQgetisnull(result, row, column) != 0) continue;
            const auto size = static_cast<std::size_t>(PQgetlength(result, row, column));
            if (!lookup.add({PQgetvalue(result, row, column), size})) return false;
          }
        return true;
      case PGRES_COMMAND_OK:
        return true;
      case PGRES_EMPTY_QUERY:
        report = {Outcome::refused, "the query is empty"};
        return true;
      case PGRES_BAD_RESPONSE:
      case PGRES_NONFATAL_ERROR:
      case PGRES_FATAL_ERROR:
        report = {PQstatus(connection_) == CONNECTION_OK ? Outcome::refused : Outcome::lost, why(connection_)};
        return true;
      case PGRES_COPY_OUT:
      case PGRES_COPY_IN:
      case PGRES_COPY_BOTH:
      case PGRES_PIPELINE_SYNC:
      case PGRES_PIPELINE_ABORTED:
        break;
    }
    report = {Outcome::refused, "the query copies a table, which is no look-up"};
    return false;
  }

  void cancel() {
    PGcancel* const cancel = PQgetCancel(connection_);
    if (cancel == nullptr) return;
    char problem[256];
    (void)PQcancel(cancel, problem, sizeof problem);  // the server may be gone: then there is nothing to cancel
    PQfreeCancel(cancel);
  }
  Report lost() {
    under_way_ = false;  // there is nobody to cancel it
    return {Outcome::lost, why(connection_), false};
  }

  PGconn* connection_;
  bool under_way_ = false;  // a query whose last result is not there
  int unsent_ = 0;          // of PQflush()
  Report report_;
};

/// The options for libpq for a host of the list.
struct Options {
  void add(const char* name, std::string value) {
    if (value.empty()) return;
    names.push_back(name);
    values.push_back(std::move(value));
  }
  std::vector<const char*> names;
  std::vector<std::string> values;
};

Options options_for(const Settings& settings, const std::string& host) {
  Options out;
  if (host.starts_with("postgresql:") || host.starts_with("postgres:")) {
    out.add("dbname", host);  // with user, password and database
  } else {
    std::string_view name = host;
    if (name.starts_with("unix:")) {
      // The directory, or the socket in it: libpq wants the directory.
      name.remove_prefix(5);
      const auto file = name.rfind("/.s.PGSQL.");
      if (file != std::string_view::npos) {
        out.add("port", std::string(name.substr(file + 10)));
        name = name.substr(0, file);
      }
    } else {
      if (name.starts_with("inet:")) name.remove_prefix(5);
      const auto colon = name.rfind(':');
      if (colon != std::string_view::npos) {
        out.add("port", std::string(name.substr(colon + 1)));
        name = name.substr(0, colon);
      }
    }
    out.add("host", std::string(name));
    out.add("dbname", setting(settings, "dbname"));
    out.add("user", setting(settings, "user"));
    out.add("password", setting(settings, "password"));
  }
  out.add("client_encoding", setting(settings, "encoding"));
  out.add("fallback_application_name", "penstock");
  return out;
}

class PgsqlDriver final : public Driver {
 public:
  std::unique_ptr<Connection> connect(const Settings& settings, const std::string& host, SteadyTime deadline,
                                      Report& report) override {
    Options options = options_for(settings, host);
    options.add("connect_timeout", std::to_string(left_until<seconds>(deadline)));
    std::vector<const char*> values;
    for (const std::string& value : options.values) values.push_back(value.c_str());
    options.names.push_back(nullptr);
    values.push_back(nullptr);
    PGconn* const connection = PQconnectStartParams(options.names.data(), values.data(), 1);
    if (connection == nullptr) {
      report = {Outcome::lost, "no memory"};
      return nullptr;
    }
    auto out = std::make_unique<PgsqlConnection>(connection);
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    while (PQstatus(connection) != CONNECTION_BAD && state != PGRES_POLLING_OK && state != PGRES_POLLING_FAILED) {
      if (!wait_for(PQsocket(connection), state == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline)) {
        report = {Outcome::timed_out, "no answer to connecting"};
        return nullptr;
      }
      state = PQconnectPoll(connection);
    }
    if (PQstatus(connection) != CONNECTION_OK || PQsetnonblocking(connection, 1) != 0) {
      report = {Outcome::lost, why(connection)};
      return nullptr;
    }
    PQsetNoticeProcessor(connection, [](void*, const char*) {}, nullptr);  // not to the program's standard error
    return out;
  }
};

}  // namespace
}  // namespace pen::map::database

PEN_TABLE_DRIVER(pen::map::database::PgsqlDriver)
