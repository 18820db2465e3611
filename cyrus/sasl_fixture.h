#pragma once
/// Cyrus SASL with accounts of its own, for tests: the library can be opened once in a process.
///
///   smtpd     sasldb: anna, "secret one", at mx.example; berta, "secret two", at other.example
///   other-db  another sasldb: carl, "secret three"
///   few       PLAIN alone; none: a mechanism that nobody has; away: saslauthd at a socket that is not there
///   hangs     saslauthd at a socket where nobody accepts
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cyrus/exchange.h"
#include "lib/base/fd.h"
#include "lib/testing/scratch.h"

namespace pen::cyrus::testing {

class Accounts {
 public:
  static const Library& library() { return *one().library_; }
  /// Threads that wait there go on: their pool cannot end before.
  static void end_hanging() { one().mux_.reset(); }

 private:
  static Accounts& one() {
    static Accounts accounts;
    return accounts;
  }
  Accounts() {
    add("db", "anna", "mx.example", "secret one");
    add("db", "berta", "other.example", "secret two");
    add("db2", "carl", "mx.example", "secret three");
    listen(scratch_.file("mux"));
    std::vector<Application> all;
    const auto application = [&](const std::string& name, const std::string& options) {
      all.push_back({.name = name, .options = config::CyrusOptions::parse(options).value()});
    };
    const std::string sasldb = "pwcheck_method: auxprop\nauxprop_plugin: sasldb\nsasldb_path: ";
    application("smtpd", sasldb + scratch_.file("db"));
    application("other-db", sasldb + scratch_.file("db2"));
    application("few", sasldb + scratch_.file("db") + "\nmech_list: PLAIN");
    application("none", "mech_list: NOSUCH");
    const std::string daemon =
        "pwcheck_method: saslauthd\nmech_list: PLAIN LOGIN CRAM-MD5\nauxprop_plugin: sasldb\n"
        "sasldb_path: " +
        scratch_.file("db") + "\nsaslauthd_path: ";
    application("away", daemon + scratch_.file("nobody"));
    application("hangs", daemon + scratch_.file("mux"));
    library_ = Library::open(std::move(all));
  }
  void add(const char* file, const char* user, const char* realm, const char* password) const {
    const std::string command = "printf '%s' '" + std::string(password) +
                                "' | PATH=$PATH:/usr/sbin saslpasswd2 -p -c -f '" + scratch_.file(file) + "' -u " +
                                realm + " " + user;
    BOOST_REQUIRE_MESSAGE(std::system(command.c_str()) == 0, "saslpasswd2 (package sasl2-bin)");
  }
  void listen(const std::string& path) {
    mux_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    BOOST_REQUIRE(::bind(mux_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    BOOST_REQUIRE(::listen(mux_.get(), 100) == 0);
  }

  pen::testing::ScratchDir scratch_;
  Fd mux_;
  std::unique_ptr<Library> library_;
};

inline Exchange login(const std::string& application, const std::string& mechanism, std::optional<std::string> initial,
                      const std::string& realm = "") {
  sasl::dovecot::Request request;
  request.mechanism = mechanism;
  request.service = "smtp";
  request.initial = std::move(initial);
  return Exchange(*Accounts::library().find(application), {.name = application, .realm = realm, .host = "mx.example"},
                  std::move(request));
}

}  // namespace pen::cyrus::testing
