#include "cyrus/table_login.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <ctime>
#include <functional>

#include "lib/base/time.h"
#include "lib/testing/scratch.h"

namespace pen::cyrus {
BOOST_AUTO_TEST_SUITE(logins_by_table)

namespace {

using Kind = Step::Kind;
using std::string_literals::operator""s;

// Of "password".
const std::string kSha512 =
    "$6$saltsalt$qFmFH.bQmmtXzyBY0s9v7Oicd2z4XSIecDzlB5KiA2/jctKu9YterLp8wwnSq.qc.eoxqOmSuNp2xS0ktL3nh/";

struct Rig {
  pen::testing::ScratchDir dir;
  std::string table = "texthash:" + dir.write("users", "anna " + kSha512 + "\nberta@mx.example {SHA512-CRYPT}" +
                                                           kSha512 + "\nlocked !" + kSha512 + "\nodd password\n");
  std::shared_ptr<const Users> users = Users::open(table, "hash").value();
  std::string realm;

  TableLogin login(const std::string& mechanism, std::optional<std::string> initial = {}) const {
    sasl::dovecot::Request request;
    request.mechanism = mechanism;
    request.initial = std::move(initial);
    return {users, {.name = table, .realm = realm, .host = "mx.example"}, std::move(request)};
  }
  Step plain(const std::string& message) const { return login("PLAIN", message).start(); }
};

/// Of this thread, which other work on the machine does not lengthen.
std::chrono::nanoseconds processor_time(const std::function<void()>& work) {
  const auto now = [] {
    timespec t{};
    BOOST_REQUIRE(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  };
  const auto before = now();
  work();
  return now() - before;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(plain_is_decided_at_once_or_after_an_empty_challenge, Rig) {
  BOOST_TEST((plain("\0anna\0password"s).kind == Kind::ok));
  BOOST_TEST(plain("\0anna\0password"s).user == "anna");
  BOOST_TEST((plain("anna\0anna\0password"s).kind == Kind::ok));
  TableLogin later = login("PLAIN");
  const Step asked = later.start();
  BOOST_TEST((asked.kind == Kind::challenge && asked.text.empty()));
  BOOST_TEST((later.respond("\0Anna\0password"s).kind == Kind::ok));
}

BOOST_FIXTURE_TEST_CASE(login_asks_for_both_words, Rig) {
  TableLogin one = login("LOGIN");
  BOOST_TEST(one.start().text == "Username:");
  BOOST_TEST(one.respond("anna").text == "Password:");
  BOOST_TEST((one.respond("password").kind == Kind::ok));
  TableLogin other = login("login", "anna");
  BOOST_TEST(other.start().text == "Password:");
  BOOST_TEST((other.respond("wrong").kind == Kind::failed));
}

BOOST_FIXTURE_TEST_CASE(all_else_is_one_refusal, Rig) {
  for (const std::string& message :
       {"\0anna\0wrong"s, "\0nobody\0password"s, "\0locked\0password"s, "\0odd\0password"s, "berta\0anna\0password"s,
        "\0anna"s, "anna"s, ""s, "\0\0password"s, "\0anna\0"s, "\0anna\0password\0"s,
        "\0anna\0"s + std::string(600, 'x'), "\0"s + std::string(600, 'x') + "\0x"s}) {
    const Step step = plain(message);
    BOOST_TEST((step.kind == Kind::failed));
    BOOST_TEST(step.text == "authentication failure");
  }
  BOOST_TEST((login("CRAM-MD5").start().kind == Kind::failed));
  BOOST_TEST(plain("\0odd\0password"s).notes.at(0).text.ends_with("the value of odd is no hash of crypt(3)"));
  BOOST_TEST(plain("\0locked\0password"s).notes.empty());
}

BOOST_FIXTURE_TEST_CASE(a_name_without_a_domain_gets_the_realm, Rig) {
  BOOST_TEST((plain("\0berta\0password"s).kind == Kind::failed));
  realm = "MX.example";
  const Step step = plain("\0berta\0password"s);
  BOOST_TEST((step.kind == Kind::ok));
  BOOST_TEST(step.user == "berta@mx.example");
  BOOST_TEST((plain("\0anna\0password"s).kind == Kind::failed));
}

BOOST_FIXTURE_TEST_CASE(a_table_that_cannot_be_asked_locks_nobody_out, Rig) {
  users = Users::open("texthash:" + dir.file("none"), "hash").value();
  const Step step = plain("\0anna\0password"s);
  BOOST_TEST((step.kind == Kind::temporary));
  BOOST_TEST(step.notes.at(0).text.contains("none"));
  BOOST_TEST(users->problems().size() == 1U);
}

BOOST_FIXTURE_TEST_CASE(a_user_who_is_not_there_costs_as_much_as_a_wrong_password, Rig) {
  // With a thousand times the work of looking up a name. None has been found before.
  const std::string hash = "$6$rounds=100000$saltsalt$" + std::string(86, '.');
  users = Users::open("texthash:" + dir.write("slow", "locked !x\nanna " + hash + "\n"), "hash").value();
  for (const std::string& name : {"nobody"s, "locked"s, "anna"s}) {
    const auto cost = processor_time([&] { BOOST_TEST((plain("\0"s + name + "\0guess"s).kind == Kind::failed)); });
    BOOST_TEST((cost > milliseconds(2)), name);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace pen::cyrus
