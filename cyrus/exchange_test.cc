#include "cyrus/exchange.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "cyrus/sasl_fixture.h"
#include "lib/trust/sasl/client.h"

namespace pen::cyrus {
BOOST_AUTO_TEST_SUITE(cyrus_exchange)

namespace {

using testing::Accounts;
using testing::login;

Step plain(const std::string& user, const std::string& password, const std::string& application = "smtpd") {
  return login(application, "PLAIN", std::string("\0", 1) + user + std::string("\0", 1) + password).start();
}

/// The last step of a login by the client of lib/trust/sasl.
Step by_our_client(const char* mechanism, const sasl::Credentials& who) {
  const auto client = sasl::choose({mechanism}, [](const auto&) { return true; }, who, "nonce");
  BOOST_REQUIRE(client != nullptr);
  Exchange exchange = login("smtpd", mechanism, client->initial());
  Step step = exchange.start();
  for (int round = 0; step.kind == Step::Kind::challenge && round < 5; ++round) {
    const auto response = client->respond(step.text);
    if (!response) break;
    step = exchange.respond(*response);
  }
  return step;
}

BOOST_AUTO_TEST_CASE(an_application_offers_what_its_options_say_with_what_each_is_open_to) {
  using namespace sasl::property;
  const Application* all = Accounts::library().find("smtpd");
  const auto offered = [&](const char* name) {
    const auto at = std::ranges::find(all->mechanisms, name, &sasl::Mechanism::name);
    return at == all->mechanisms.end() ? ~0U : at->properties;
  };
  BOOST_TEST(offered("PLAIN") == (kPlaintext | kActive | kDictionary));
  BOOST_TEST(offered("LOGIN") == (kPlaintext | kActive | kDictionary));
  BOOST_TEST(offered("ANONYMOUS") == (kAnonymous | kActive | kDictionary));
  BOOST_TEST((offered("CRAM-MD5") & kPlaintext) == 0U);
  BOOST_TEST((offered("SCRAM-SHA-256") & kMutualAuth) != 0U);
  BOOST_TEST(offered("EXTERNAL") == ~0U);
  BOOST_TEST(Accounts::library().find("few")->mechanisms.size() == 1U);
  BOOST_TEST(Accounts::library().find("none")->mechanisms.empty());
  BOOST_TEST(Accounts::library().find("none")->fault.contains("mech_list"));
  BOOST_TEST(Accounts::library().find("nobody") == nullptr);
}

BOOST_AUTO_TEST_CASE(a_password_is_right_or_wrong_and_an_unknown_user_looks_the_same) {
  const Step right = plain("anna", "secret one");
  BOOST_TEST((right.kind == Step::Kind::ok && right.user == "anna"), right.text);
  const Step wrong = plain("anna", "guess"), unknown = plain("nobody", "guess");
  BOOST_TEST((wrong.kind == Step::Kind::failed && unknown.kind == Step::Kind::failed));
  BOOST_TEST(wrong.text == "authentication failure");
  BOOST_TEST(unknown.text == wrong.text);
  for (const Step* step : {&right, &wrong, &unknown})
    for (const Note& note : step->notes) BOOST_TEST(!note.text.contains("secret one"));
}

BOOST_AUTO_TEST_CASE(login_asks_word_by_word) {
  Exchange exchange = login("smtpd", "LOGIN", std::nullopt);
  BOOST_TEST(exchange.start().text == "Username:");
  BOOST_TEST(exchange.respond("anna").text == "Password:");
  BOOST_TEST((exchange.respond("secret one").kind == Step::Kind::ok));
}

BOOST_AUTO_TEST_CASE(challenges_are_answered_by_our_own_client) {
  for (const char* name : {"CRAM-MD5", "SCRAM-SHA-1", "SCRAM-SHA-256"}) {
    for (const char* password : {"secret one", "guess"}) {
      BOOST_TEST_CONTEXT(name << " " << password) {
        const Step step = by_our_client(name, {"anna", password});
        const bool right = std::string(password) != "guess";
        BOOST_TEST((step.kind == (right ? Step::Kind::ok : Step::Kind::failed)), step.text);
        if (right) BOOST_TEST(step.user == "anna");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(nothing_comes_with_success_what_is_left_to_say_is_a_challenge) {
  // SCRAM's server proves itself last; the client's answer to that is empty.
  const auto client = sasl::choose({"SCRAM-SHA-1"}, [](const auto&) { return true; }, {"anna", "secret one"}, "nonce");
  Exchange exchange = login("smtpd", "SCRAM-SHA-1", client->initial());
  const Step last = exchange.respond(client->respond(exchange.start().text).value());
  BOOST_TEST((last.kind == Step::Kind::challenge));
  BOOST_TEST(last.text.starts_with("v="));
  BOOST_TEST((exchange.respond("").kind == Step::Kind::ok));
}

BOOST_AUTO_TEST_CASE(the_realm_is_added_to_a_name_without_one_and_is_where_it_is_looked_up) {
  const auto in_realm = [](const std::string& user, const std::string& realm) {
    return login("smtpd", "PLAIN", std::string("\0", 1) + user + std::string("\0secret two", 11), realm).start();
  };
  const Step added = in_realm("berta", "other.example");
  BOOST_TEST((added.kind == Step::Kind::ok), added.text);
  BOOST_TEST(added.user == "berta@other.example");
  BOOST_TEST((in_realm("berta", "").kind == Step::Kind::failed));
  BOOST_TEST(in_realm("berta@other.example", "").user == "berta@other.example");
}

BOOST_AUTO_TEST_CASE(each_application_has_its_own_options_in_one_process) {
  BOOST_TEST((plain("anna", "secret one", "other-db").kind != Step::Kind::ok));
  BOOST_TEST((plain("carl", "secret three", "other-db").kind == Step::Kind::ok));
  BOOST_TEST((plain("carl", "secret three").kind != Step::Kind::ok));
  BOOST_TEST((login("few", "CRAM-MD5", std::nullopt).start().kind == Step::Kind::failed));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_decided_is_no_wrong_password) {
  const Step away = plain("anna", "secret one", "away");  // no saslauthd at its socket
  BOOST_TEST((away.kind == Step::Kind::temporary), away.text);
  BOOST_TEST(!away.notes.empty());
}

BOOST_AUTO_TEST_CASE(what_is_no_response_of_the_mechanism_ends_the_exchange) {
  for (const char* name : {"PLAIN", "LOGIN", "CRAM-MD5", "DIGEST-MD5", "SCRAM-SHA-1", "SCRAM-SHA-256"}) {
    for (const std::string& bytes : {std::string("\xff\0\0x", 4), std::string(), std::string(5000, 'x')}) {
      BOOST_TEST_CONTEXT(name << " " << bytes.size()) {
        Exchange exchange = login("smtpd", name, std::nullopt);
        Step step = exchange.start();
        for (int round = 0; step.kind == Step::Kind::challenge && round < 5; ++round) step = exchange.respond(bytes);
        // The library has the same code for an empty name as for its own troubles.
        BOOST_TEST((step.kind == Step::Kind::failed || step.text == "generic failure"), step.text);
      }
    }
  }
  BOOST_TEST((login("smtpd", "NOSUCH", std::nullopt).start().kind == Step::Kind::failed));
}

// Under AddressSanitizer: nor does the library keep anything of them.
BOOST_AUTO_TEST_CASE(names_without_a_canonical_form_are_no_users) {
  for (const std::size_t size : {0U, 1U, 512U, 513U, 1015U, 1024U, 4000U}) {
    const std::string name(size, 'a');
    for (const char* mechanism : {"PLAIN", "LOGIN", "CRAM-MD5", "SCRAM-SHA-256"}) {
      BOOST_TEST_CONTEXT(mechanism << " " << size) {
        const Step step = by_our_client(mechanism, {name, "guess"});
        BOOST_TEST((step.kind == Step::Kind::failed || step.text == "generic failure"), step.text);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(logins_are_decided_in_threads) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&good, i] {
      for (int n = 0; n < 20; ++n) {
        const bool other = (i + n) % 2 == 0;
        const Step step = other ? plain("carl", "secret three", "other-db") : plain("anna", "secret one");
        if (step.kind == Step::Kind::ok && step.user == (other ? "carl" : "anna")) ++good;
      }
    });
  for (auto& thread : threads) thread.join();
  BOOST_TEST(good == 160);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::cyrus
