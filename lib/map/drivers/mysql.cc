/// mysql: tables, with MariaDB's client library.
///
/// Quoting: '…' or "…" by the connection's character set (mysql_real_escape_string).
/// Results: of the first result set; a stored procedure has another one, without columns. Another one with rows is an
///          error. Rows are read one by one and not kept.
/// Waiting: questions are asked in steps, by the library's calls that do not block. Connecting blocks, for as long as
///          it was told.
/// Safety:  the server cannot ask for files (LOCAL INFILE is off); several statements in one query are refused, but a
///          procedure may have several results.
#include <mysql.h>
#include <sys/socket.h>

#include <mutex>
#include <utility>
#include <vector>

#include "lib/map/drivers/module.h"

namespace pen::map::database {
namespace {

// Of errmsg.h, which defines them as macros among many others.
constexpr unsigned kServerGone = 2006, kServerLost = 2013, kTimedOut = 110;

class MysqlConnection final : public Connection {
 public:
  explicit MysqlConnection(MYSQL* mysql) : mysql_(mysql) {}
  ~MysqlConnection() override {
    mysql_thread_init();
    if (waits_for_ != 0) end();  // the library would wait for the rest of the answer
    if (rows_ != nullptr) mysql_free_result(rows_);
    mysql_close(mysql_);
  }
  MysqlConnection(const MysqlConnection&) = delete;
  MysqlConnection& operator=(const MysqlConnection&) = delete;

  Report ask(const Lookup& lookup) override { return ask_by_steps(*this, lookup); }
  bool in_steps() const override { return true; }

  std::optional<Report> begin(const Lookup& lookup) override {
    mysql_thread_init();
    auto sql = lookup.expand("query", [this](std::string_view part, std::string& out) {
      std::vector<char> quoted(2 * part.size() + 1);
      const unsigned long size = mysql_real_escape_string(mysql_, quoted.data(), part.data(), part.size());
      if (size == static_cast<unsigned long>(-1)) return false;
      out.append(quoted.data(), size);
      return true;
    });
    if (!sql) return Report{Outcome::refused, "the key cannot be quoted"};
    sql_ = *std::move(sql);
    first_ = true;
    any_ = false;
    phase_ = Phase::query;
    waits_for_ = mysql_real_query_start(&failed_, mysql_, sql_.data(), sql_.size());
    return go_on(lookup);
  }

  std::optional<Report> step(const Lookup& lookup) override {
    mysql_thread_init();
    // What the descriptor is not ready for in truth, the library finds out.
    const int ready = waits_for_ & (MYSQL_WAIT_READ | MYSQL_WAIT_WRITE);
    switch (phase_) {
      case Phase::query:
        waits_for_ = mysql_real_query_cont(&failed_, mysql_, ready);
        break;
      case Phase::row:
        waits_for_ = mysql_fetch_row_cont(&row_, rows_, ready);
        break;
      case Phase::end_of_rows:
        waits_for_ = mysql_free_result_cont(rows_, ready);
        break;
      case Phase::next:
        waits_for_ = mysql_next_result_cont(&more_, mysql_, ready);
        break;
    }
    return go_on(lookup);
  }

  Waits waits() const override { return {.fd = socket(), .write = (waits_for_ & MYSQL_WAIT_READ) == 0}; }

 private:
  enum class Phase { query, row, end_of_rows, next };

  /// After a phase has ended, or waits.
  std::optional<Report> go_on(const Lookup& lookup) {
    while (waits_for_ == 0) switch (phase_) {
        case Phase::query:
          if (failed_ != 0) return trouble();
          if (auto report = begin_result()) return report;
          break;
        case Phase::row:
          if (row_ != nullptr) {
            if (auto report = take_row(lookup)) return stop(*std::move(report));
            waits_for_ = mysql_fetch_row_start(&row_, rows_);
          } else if (mysql_errno(mysql_) != 0) {
            return stop(trouble());
          } else {
            phase_ = Phase::end_of_rows;
            waits_for_ = mysql_free_result_start(rows_);
          }
          break;
        case Phase::end_of_rows:
          rows_ = nullptr;
          first_ = false;
          begin_next();
          break;
        case Phase::next:
          if (more_ > 0) return trouble();
          if (more_ < 0) return all_read(lookup);
          if (auto report = begin_result()) return report;
          break;
      }
    return std::nullopt;
  }

  std::optional<Report> begin_result() {
    rows_ = mysql_use_result(mysql_);
    if (rows_ != nullptr) {
      any_ = true;
      phase_ = Phase::row;
      waits_for_ = mysql_fetch_row_start(&row_, rows_);
    } else if (mysql_errno(mysql_) != 0) {
      return trouble();
    } else {
      begin_next();
    }
    return std::nullopt;
  }
  void begin_next() {
    phase_ = Phase::next;
    waits_for_ = mysql_next_result_start(&more_, mysql_);
  }
  Report all_read(const Lookup& lookup) const {
    if (!any_ && setting(lookup.settings, "require_result_set") != "no")
      return {Outcome::refused, "the query has no result set (require_result_set = yes)"};
    return {};
  }

  /// A report: no more rows are wanted.
  std::optional<Report> take_row(const Lookup& lookup) const {
    if (!first_) return Report{Outcome::refused, "the query has several result sets with rows", false};
    const unsigned long* sizes = mysql_fetch_lengths(rows_);
    for (unsigned i = 0; i < mysql_num_fields(rows_); ++i)
      if (row_[i] != nullptr && !lookup.add({row_[i], sizes[i]})) return Report{Outcome::done, "", false};
    return std::nullopt;
  }
  my_socket socket() const { return mysql_get_socket(mysql_); }
  /// Ends the connection: freeing a result reads the rest of it, however long.
  void end() const {
    if (const my_socket fd = socket(); fd >= 0) ::shutdown(fd, SHUT_RDWR);
  }
  Report stop(Report report) {
    end();
    mysql_free_result(std::exchange(rows_, nullptr));
    report.reusable = false;
    return report;
  }

  Report trouble() const {
    const unsigned code = mysql_errno(mysql_);
    const bool gone = code >= 2000 && code < 3000;  // the client library's own; the server's are below and above
    return {gone ? Outcome::lost : Outcome::refused, mysql_error(mysql_), !gone};
  }

  MYSQL* mysql_;
  // The question under way: what the library does, and what it waits for (MYSQL_WAIT_…; 0: it is done with that).
  Phase phase_ = Phase::query;
  int waits_for_ = 0;
  std::string sql_;
  int failed_ = 0, more_ = 0;
  MYSQL_RES* rows_ = nullptr;
  MYSQL_ROW row_ = nullptr;
  bool first_ = true, any_ = false;  // result sets with rows
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
    mysql_options(mysql, MYSQL_OPT_NONBLOCK, nullptr);  // with a stack for it; calls that block go on to do so
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
