/// mysql: tables, with MariaDB's client library.
///
/// Quoting: '…' or "…" by the connection's character set (mysql_real_escape_string).
/// Results: of the first result set; a stored procedure has another one, without columns. Another one with rows is an
///          error. Rows are read one by one and not kept.
/// Safety:  the server cannot ask for files (LOCAL INFILE is off); several statements in one query are refused, but a
///          procedure may have several results.
#include <mysql.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <mutex>
#include <vector>

#include "lib/map/drivers/module.h"

namespace pen::map::database {
namespace {

// Of errmsg.h, which defines them as macros among many others.
constexpr unsigned kServerGone = 2006, kServerLost = 2013, kTimedOut = 110;

class MysqlConnection final : public Connection {
 public:
  explicit MysqlConnection(MYSQL* mysql) : mysql_(mysql) {}
  ~MysqlConnection() override { mysql_close(mysql_); }
  MysqlConnection(const MysqlConnection&) = delete;
  MysqlConnection& operator=(const MysqlConnection&) = delete;

  Report ask(const Lookup& lookup) override {
    mysql_thread_init();
    const auto sql = lookup.expand("query", [this](std::string_view part, std::string& out) {
      std::vector<char> quoted(2 * part.size() + 1);
      const unsigned long size = mysql_real_escape_string(mysql_, quoted.data(), part.data(), part.size());
      if (size == static_cast<unsigned long>(-1)) return false;
      out.append(quoted.data(), size);
      return true;
    });
    if (!sql) return {Outcome::refused, "the key cannot be quoted"};
    if (mysql_send_query(mysql_, sql->data(), sql->size()) != 0) return trouble(lookup.deadline);
    // The library's own time limit is that of connecting, for each wait; the server may think for longer, or shorter.
    if (!wait_for_answer(lookup.deadline)) {
      end();
      return {Outcome::timed_out, "", false};
    }
    if (mysql_read_query_result(mysql_) != 0) return trouble(lookup.deadline);
    bool first = true;
    bool any = false;
    for (;;) {
      if (MYSQL_RES* const rows = mysql_use_result(mysql_)) {
        Report report = take(rows, lookup, first);
        any = true;
        mysql_free_result(rows);
        if (report.outcome != Outcome::done || !report.reusable) return report;
        first = false;
      } else if (mysql_errno(mysql_) != 0) {
        return trouble(lookup.deadline);
      }
      const int more = mysql_next_result(mysql_);
      if (more > 0) return trouble(lookup.deadline);
      if (more < 0) break;
    }
    if (!any && setting(lookup.settings, "require_result_set") != "no")
      return {Outcome::refused, "the query has no result set (require_result_set = yes)"};
    return {};
  }

 private:
  Report take(MYSQL_RES* rows, const Lookup& lookup, bool first) {
    const unsigned columns = mysql_num_fields(rows);
    while (MYSQL_ROW row = mysql_fetch_row(rows)) {
      if (!first) return stop({Outcome::refused, "the query has several result sets with rows", false});
      if (system_clock().now() >= lookup.deadline) return stop({Outcome::timed_out, "the rows take too long", false});
      const unsigned long* sizes = mysql_fetch_lengths(rows);
      for (unsigned i = 0; i < columns; ++i)
        if (row[i] != nullptr && !lookup.add({row[i], sizes[i]})) return stop({Outcome::done, "", false});
    }
    if (mysql_errno(mysql_) != 0) return trouble(lookup.deadline);
    return {};
  }
  my_socket socket() const { return mysql_get_socket(mysql_); }
  bool wait_for_answer(SteadyTime deadline) const {
    for (;;) {
      if (system_clock().now() >= deadline) return false;
      pollfd p{socket(), POLLIN, 0};
      const int n = ::poll(&p, 1, left_until<milliseconds>(deadline));
      if (n > 0) return true;
      if (n < 0 && errno != EINTR) return false;
    }
  }
  /// Ends the connection: freeing a result reads the rest of it, however long.
  void end() const {
    if (const my_socket fd = socket(); fd >= 0) ::shutdown(fd, SHUT_RDWR);
  }
  Report stop(Report report) const {
    end();
    return report;
  }

  Report trouble(SteadyTime deadline) const {
    const unsigned code = mysql_errno(mysql_);
    const bool gone = code >= 2000 && code < 3000;  // the client library's own; the server's are below and above
    Report report{gone ? Outcome::lost : Outcome::refused, mysql_error(mysql_), !gone};
    if (gone && system_clock().now() + milliseconds(50) >= deadline) report = {Outcome::timed_out, "", false};
    return report;
  }

  MYSQL* mysql_;
};

struct Address {
  std::string host, socket;
  unsigned port = 0;
};
Address address_of(std::string_view text) {
  if (text.starts_with("unix:")) return {"localhost", std::string(text.substr(5)), 0};
  if (text.starts_with('/')) return {"localhost", std::string(text), 0};
  if (text.starts_with("inet:")) text.remove_prefix(5);
  Address out{std::string(text), "", 0};
  if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
    out.host = text.substr(0, colon);
    for (const char c : text.substr(colon + 1))
      if (c >= '0' && c <= '9' && out.port < 100'000) out.port = out.port * 10 + static_cast<unsigned>(c - '0');
  }
  return out;
}

class MysqlDriver final : public Driver {
 public:
  std::unique_ptr<Connection> connect(const Settings& settings, const std::string& host, SteadyTime deadline,
                                      Report& report) override {
    static std::once_flag once;
    std::call_once(once, [] { mysql_library_init(0, nullptr, nullptr); });
    mysql_thread_init();
    MYSQL* const mysql = mysql_init(nullptr);
    if (mysql == nullptr) {
      report = {Outcome::lost, "no memory"};
      return nullptr;
    }
    auto out = std::make_unique<MysqlConnection>(mysql);
    const auto text = [&](std::string_view name) {
      const std::string& value = setting(settings, name);
      return value.empty() ? nullptr : value.c_str();
    };
    if (text("option_file") != nullptr) {
      mysql_options(mysql, MYSQL_READ_DEFAULT_FILE, text("option_file"));
      mysql_options(mysql, MYSQL_READ_DEFAULT_GROUP, text("option_group"));
    }
    unsigned left = static_cast<unsigned>(left_until<seconds>(deadline));
    mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &left);
    mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &left);
    mysql_options(mysql, MYSQL_OPT_WRITE_TIMEOUT, &left);
    unsigned off = 0;
    mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &off);
    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, text("charset"));
    if (text("tls_cert_file") != nullptr || text("tls_key_file") != nullptr || text("tls_CAfile") != nullptr ||
        text("tls_CApath") != nullptr || text("tls_ciphers") != nullptr)
      mysql_ssl_set(mysql, text("tls_key_file"), text("tls_cert_file"), text("tls_CAfile"), text("tls_CApath"),
                    text("tls_ciphers"));
    my_bool verify = is_yes(settings, "tls_verify_cert") ? 1 : 0;
    mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    const Address at = address_of(host);
    const bool local = at.host == "localhost" && at.port == 0;
    if (mysql_real_connect(mysql, local ? nullptr : at.host.c_str(), text("user"), text("password"), text("dbname"),
                           at.port, at.socket.empty() ? nullptr : at.socket.c_str(), CLIENT_MULTI_RESULTS) != nullptr)
      return out;
    const unsigned code = mysql_errno(mysql);
    const bool late = (code == kServerGone || code == kServerLost || code == kTimedOut || code == 2002) &&
                      system_clock().now() + milliseconds(50) >= deadline;
    report = {late ? Outcome::timed_out : Outcome::lost, mysql_error(mysql)};
    return nullptr;
  }
};

}  // namespace
}  // namespace pen::map::database

PEN_TABLE_DRIVER(pen::map::database::MysqlDriver)
