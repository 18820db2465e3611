#pragma once
/// Cyrus SASL (libsasl2) in this process: its options, its plugins, its words for the log.
///
/// Use:     auto library = Library::open({{.name = "smtpd", .options = …}});    // once in a process
///          const Application* application = library->find("smtpd");            // nullptr: no smtpd service names it
///          Exchange exchange(*application, …);                                 // exchange.h
/// Applications: the library itself knows one for a process. Here each has its options all the same: what the library
///          asks for is answered with those of the application that the thread works for (Working). What plugins read
///          only when they are loaded (sql_…, ldapdb_…) is that of the first application that sets it; take_news()
///          names the others that set it otherwise.
/// Files:   only those that the caller has read: the library's own search for options is turned off.
/// Root:    plugins are loaded with the rights of the caller. Options may be readable by root alone.
/// Owns:    never destroyed: plugins may have threads, and the process ends without it.
/// Thread:  open() in the only one; then any. Mutexes are those of the process, set before anything else.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cyrus/step.h"
#include "lib/config/cyrus_sasl.h"
#include "lib/trust/sasl/properties.h"

namespace pen::cyrus {

class Users;

struct Application {
  std::string name;
  config::CyrusOptions options = {};
  std::vector<sasl::Mechanism> mechanisms = {};  // what it offers, all of them: smtpd chooses
  std::string fault = {};                        // why it offers none
  std::shared_ptr<const Users> users = {};       // a table decides, and the library has no part in it
};

/// While it lives, what the library asks and says in this thread is about this application. The library's levels for
/// passwords are not taken.
class Working {
 public:
  static constexpr std::size_t kMostNotes = 8;
  Working(const Application& application, std::vector<Note>& notes);
  ~Working();
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;
};

class Library {
 public:
  /// Applications that have a fault already keep it. Never fails: what the library cannot do is each one's fault.
  static std::unique_ptr<Library> open(std::vector<Application> applications);
  const Application* find(std::string_view name) const;
  const std::vector<Application>& applications() const { return applications_; }
  /// Lines for the log about the start.
  std::vector<std::string> take_news() { return std::exchange(news_, {}); }

 private:
  void tell_shared_options();
  void list_mechanisms(Application& application);

  std::vector<Application> applications_;
  std::vector<std::string> news_;
};

/// The answer to "where is it": the path that the options name, or the library's own; the same below Postfix's queue
/// directory where only that is there. nullptr: the library is to look where it always does.
const char* place_of(std::string_view option, const Application& application);

}  // namespace pen::cyrus
