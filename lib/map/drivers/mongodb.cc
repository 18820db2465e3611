/// mongodb: tables, with MongoDB's own client library.
///
/// Quoting: lib/map/mongodb_filter.h.
/// Values:  the fields that the projection leaves of each document, in their order: strings, whole numbers, and those
///          in arrays. Fields of other types are passed over, as in Postfix. _id is never among them.
/// Waiting: the library's calls block. Its limits are set when a connection is made: connecting takes at most what
///          Driver::connect() is given, and each answer kSilence. So a question may outlast its deadline in its thread;
///          the caller has been answered by then (Asker). The server gets a shorter limit for a query (maxTimeMS).
/// Source:  Postfix mongodb_table(5); libmongoc 1.23.
#include <mongoc/mongoc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "lib/map/drivers/module.h"
#include "lib/map/mongodb_filter.h"

namespace pen::map::database {
namespace {

constexpr milliseconds kSilence{25'000};  // a look-up has 30 s
constexpr milliseconds kMargin{1'000};    // between the server's limit and ours

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* p) const {
    kFree(p);
  }
};
using Uri = std::unique_ptr<mongoc_uri_t, Free<mongoc_uri_destroy>>;
using Client = std::unique_ptr<mongoc_client_t, Free<mongoc_client_destroy>>;
using Collection = std::unique_ptr<mongoc_collection_t, Free<mongoc_collection_destroy>>;
using Cursor = std::unique_ptr<mongoc_cursor_t, Free<mongoc_cursor_destroy>>;

/// Owns a document. (In a template argument bson_t loses the alignment that its name has.)
class Document {
 public:
  explicit Document(bson_t* document) : document_(document) {}
  Document(Document&& other) noexcept : document_(std::exchange(other.document_, nullptr)) {}
  Document& operator=(Document&&) = delete;
  ~Document() {
    if (document_ != nullptr) bson_destroy(document_);
  }
  bson_t* get() const { return document_; }
  explicit operator bool() const { return document_ != nullptr; }

 private:
  bson_t* document_;
};

/// Answers of a server that another member of its set, or the same one later, may give.
bool is_passing(std::uint32_t code) {
  constexpr std::uint32_t kCodes[] = {
      11600,  // InterruptedAtShutdown
      11602,  // InterruptedDueToReplStateChange
      10107,  // NotWritablePrimary
      13435,  // NotPrimaryNoSecondaryOk
      13436,  // NotPrimaryOrSecondary
      189,    // PrimarySteppedDown
      91,     // ShutdownInProgress
  };
  return std::ranges::find(kCodes, code) != std::end(kCodes);
}
constexpr std::uint32_t kMaxTimeExpired = 50;

/// What an error of the library means. began: when the question was.
Report failed(const bson_error_t& error, SteadyTime began, SteadyTime deadline) {
  const bool from_server = error.domain == MONGOC_ERROR_SERVER || error.domain == MONGOC_ERROR_WRITE_CONCERN;
  if (from_server && error.code == kMaxTimeExpired) return {Outcome::timed_out, "the query takes too long"};
  const bool ours = error.domain == MONGOC_ERROR_BSON || error.domain == MONGOC_ERROR_COMMAND ||
                    error.domain == MONGOC_ERROR_CURSOR || error.domain == MONGOC_ERROR_CLIENT;
  if (ours || (from_server && !is_passing(error.code))) return {Outcome::refused, error.message, from_server};
  const SteadyTime now = system_clock().now();
  const bool late = now >= deadline || now - began >= kSilence - kMargin;
  return {late ? Outcome::timed_out : Outcome::lost, error.message, false};
}

constexpr int kDeepest = 100;  // as in MongoDB's documents

/// Gives the values of a document or an array. False: no more is wanted, or `problem` says what is wrong.
bool give(bson_iter_t& at, const Lookup& lookup, std::string& problem, int depth) {
  while (bson_iter_next(&at)) {
    bool more = true;
    if (depth == kDeepest && std::string_view(bson_iter_key(&at)) == "_id") continue;
    if (BSON_ITER_HOLDS_UTF8(&at)) {
      std::uint32_t size = 0;
      const char* text = bson_iter_utf8(&at, &size);
      if (!bson_utf8_validate(text, size, false)) {
        problem = std::string("the field ") + bson_iter_key(&at) + " is no text in UTF-8";
        return false;
      }
      more = lookup.add({text, size});
    } else if (BSON_ITER_HOLDS_INT(&at)) {
      more = lookup.add(std::to_string(bson_iter_as_int64(&at)));
    } else if (bson_iter_t inside; BSON_ITER_HOLDS_ARRAY(&at) && bson_iter_recurse(&at, &inside)) {
      if (depth == 0) {
        problem = std::string("the field ") + bson_iter_key(&at) + " is too deep";
        return false;
      }
      more = give(inside, lookup, problem, depth - 1);
    }
    if (!more) return false;
  }
  return true;
}

Document from_json(std::string_view json, bson_error_t& error) {
  return Document(bson_new_from_json(reinterpret_cast<const std::uint8_t*>(json.data()),
                                     static_cast<ssize_t>(json.size()), &error));
}

/// Which fields are wanted. None: `error` says why there is no such document.
Document projection_of(const Settings& settings, bson_error_t& error) {
  const std::string& written = setting(settings, "projection");
  Document out = written.empty() ? Document(bson_new()) : from_json(written, error);
  if (!out) return out;
  if (!bson_has_field(out.get(), "_id")) BSON_APPEND_INT32(out.get(), "_id", 0);
  for (std::string_view rest = setting(settings, "result_attribute"); !rest.empty();) {
    const auto end = std::min(rest.find_first_of(", \t\r\n"), rest.size());
    if (end > 0) BSON_APPEND_INT32(out.get(), std::string(rest.substr(0, end)).c_str(), 1);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

class MongoConnection final : public Connection {
 public:
  explicit MongoConnection(Client client) : client_(std::move(client)) {}

  Report ask(const Lookup& lookup) override {
    const SteadyTime began = system_clock().now();
    const int left = std::min(left_until<milliseconds>(lookup.deadline), static_cast<int>(kSilence.count()));
    if (left <= 0) return {Outcome::timed_out, ""};
    const auto text = lookup.expand("query_filter", quote_in_filter);
    if (!text) return {Outcome::refused, "the key cannot be quoted"};
    bson_error_t error{};
    const Document filter = from_json(*text, error);
    if (!filter) return {Outcome::refused, std::string("query_filter: ") + error.message};
    const Document projection = projection_of(lookup.settings, error);
    if (!projection) return {Outcome::refused, std::string("projection: ") + error.message};
    const Document options(bson_new());
    BSON_APPEND_DOCUMENT(options.get(), "projection", projection.get());
    BSON_APPEND_INT64(options.get(), "maxTimeMS", std::max(left - static_cast<int>(kMargin.count()), 1));
    const Collection collection(mongoc_client_get_collection(client_.get(), setting(lookup.settings, "dbname").c_str(),
                                                             setting(lookup.settings, "collection").c_str()));
    const Cursor cursor(mongoc_collection_find_with_opts(collection.get(), filter.get(), options.get(), nullptr));
    const bson_t* document = nullptr;
    std::string problem;
    while (mongoc_cursor_next(cursor.get(), &document)) {
      bson_iter_t at;
      if (!bson_iter_init(&at, document))
        return {Outcome::lost, "the server sent something else than documents", false};
      if (give(at, lookup, problem, kDeepest)) continue;
      if (problem.empty()) return {};
      return {Outcome::refused, problem};
    }
    if (mongoc_cursor_error(cursor.get(), &error)) return failed(error, began, lookup.deadline);
    return {};
  }

 private:
  Client client_;
};

class MongoDriver final : public Driver {
 public:
  MongoDriver() {
    mongoc_log_set_handler(nullptr, nullptr);  // it would write to standard error
    mongoc_init();
    // The library shows its counters in a file of shared memory, which a process that is killed would leave behind.
    ::shm_unlink(("/mongoc-" + std::to_string(::getpid())).c_str());
  }

  /// host: the whole URI. The library finds the members of a replica set itself.
  std::unique_ptr<Connection> connect(const Settings&, const std::string& host, SteadyTime deadline,
                                      Report& report) override {
    const SteadyTime began = system_clock().now();
    bson_error_t error{};
    const Uri uri(mongoc_uri_new_with_error(host.c_str(), &error));
    if (!uri) {
      report = {Outcome::lost, std::string("uri: ") + error.message};
      return nullptr;
    }
    const int left = std::max(left_until<milliseconds>(deadline), 1);
    at_most(uri.get(), MONGOC_URI_CONNECTTIMEOUTMS, left);
    at_most(uri.get(), MONGOC_URI_SERVERSELECTIONTIMEOUTMS, left);
    at_most(uri.get(), MONGOC_URI_SOCKETTIMEOUTMS, static_cast<int>(kSilence.count()));
    mongoc_uri_set_option_as_bool(uri.get(), MONGOC_URI_RETRYREADS, false);  // the pool does
    if (mongoc_uri_get_appname(uri.get()) == nullptr) mongoc_uri_set_appname(uri.get(), "penstock");
    Client client(mongoc_client_new_from_uri_with_error(uri.get(), &error));
    if (!client) {
      report = {Outcome::lost, error.message};
      return nullptr;
    }
    mongoc_client_set_error_api(client.get(), MONGOC_ERROR_API_VERSION_2);
    // Nothing has been connected so far.
    const Document ping(BCON_NEW("ping", BCON_INT32(1)));
    if (!mongoc_client_read_command_with_opts(client.get(), "admin", ping.get(), mongoc_uri_get_read_prefs_t(uri.get()),
                                              nullptr, nullptr, &error)) {
      report = failed(error, began, deadline);
      if (report.outcome == Outcome::refused) report.outcome = Outcome::lost;  // as this login is of no use there
      return nullptr;
    }
    return std::make_unique<MongoConnection>(std::move(client));
  }

 private:
  static void at_most(mongoc_uri_t* uri, const char* option, int most) {
    const int given = mongoc_uri_get_option_as_int32(uri, option, 0);
    if (given <= 0 || given > most) mongoc_uri_set_option_as_int32(uri, option, most);
  }
};

}  // namespace
}  // namespace pen::map::database

PEN_TABLE_DRIVER(pen::map::database::MongoDriver)
