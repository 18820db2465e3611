#include "tools/sendmail_options.h"

#include <boost/test/unit_test.hpp>

#include "lib/mail/envelope.h"

namespace pen::tools {
namespace {

auto read(std::vector<const char*> words, const char* name = "/usr/sbin/sendmail") {
  words.insert(words.begin(), name);
  return SendmailOptions::read(static_cast<int>(words.size()), words.data());
}

BOOST_AUTO_TEST_SUITE(sendmail_options)

BOOST_AUTO_TEST_CASE(a_message_has_what_the_options_say) {
  const auto o = read({"-oi", "-ffrom@example.com", "-FA Name", "-N", "success,delay", "-Rhdrs", "-V", "id",
                       "-B8bitmime", "-Orequiretls=YES", "-G", "-v", "to@example.com", "-t"});
  BOOST_REQUIRE(o);
  BOOST_TEST(o->mode == 'm');
  BOOST_TEST(o->sender.value() == "from@example.com");
  BOOST_TEST(o->full_name.value() == "A Name");
  BOOST_TEST(o->reading.notify == (mail::notify::kSuccess | mail::notify::kDelay));
  BOOST_CHECK(o->mail.ret == mail::Ret::headers);
  BOOST_CHECK(o->mail.body_type == mail::BodyType::eight_bit_mime);
  BOOST_TEST(o->mail.envid == "id");
  BOOST_TEST(o->requiretls == "yes");
  BOOST_TEST((o->mail.gateway && o->verbose && !o->reading.dot_ends));
  // An option after a recipient is a recipient: an address may begin with any character.
  BOOST_TEST((o->words == std::vector<std::string>{"to@example.com", "-t"}));
  BOOST_TEST(!o->reading.header_recipients);
  BOOST_TEST(read({"-V+=", "to@example.com"})->verp.value() == "+=");  // as before Postfix 2.3
  BOOST_TEST(!read({"-Vab", "to@example.com"})->verp.has_value());
  BOOST_TEST(!read({"to@example.com"})->full_name.has_value());
  BOOST_TEST(read({"-F", "", "to@example.com"})->full_name.value() == "");
}

BOOST_AUTO_TEST_CASE(the_name_is_a_task_and_options_replace_it) {
  BOOST_TEST(read({}, "newaliases")->mode == 'i');
  BOOST_TEST(read({}, "/usr/bin/mailq")->mode == 'p');
  BOOST_TEST(read({"-bp"}, "newaliases")->mode == 'p');
  BOOST_TEST(read({"-bp", "-I"})->mode == 'i');
  BOOST_TEST(read({"-I", "-oAhash:/a"})->alias_file == "hash:/a");
}

BOOST_AUTO_TEST_CASE(the_queue_is_tried_whole_by_message_or_by_site) {
  BOOST_TEST(read({"-q"})->mode == 'q');
  BOOST_TEST(read({"-qI4bGNsx3Ynxz1kGz8"})->flush_id == "4bGNsx3Ynxz1kGz8");
  BOOST_TEST(read({"-qRexample.com"})->flush_site == "example.com");
  BOOST_TEST(read({"-q15m"})->interval);
  // A daemon flushes the queue by itself, whichever option is first.
  BOOST_TEST(read({"-bd", "-q15m"})->mode == 'd');
  BOOST_TEST(read({"-q", "-bd"})->mode == 'd');
  BOOST_TEST(read({"-bd", "-q"})->mode == 'd');
}

BOOST_AUTO_TEST_CASE(a_time_for_the_queue_ends_every_task_but_a_daemon) {
  for (const char* task : {"-bp", "-bi", "-bs", "-bm", "-bv", "-bh", "-I", "-q", "-qIx", "-qRx"}) {
    BOOST_TEST(read({task, "-q5m"})->idle(), task);
    BOOST_TEST(read({"-q5m", task})->idle(), task);
  }
  for (const char* task : {"-bd", "-bl"}) {
    BOOST_TEST(!read({task, "-q5m"})->idle(), task);
    BOOST_TEST(!read({"-q5m", task})->idle(), task);
  }
  for (const char* task : {"-bp", "-bi", "-bs", "-q"}) BOOST_TEST(!read({"-bh", task})->idle(), task);
  BOOST_TEST(read({"-bp", "-bH"})->idle());
}

BOOST_AUTO_TEST_CASE(the_directory_may_be_named_by_its_main_cf) {
  BOOST_TEST(read({"-C/etc/mail/main.cf"})->config_directory == "/etc/mail");
  BOOST_TEST(read({"-C", "/etc/mail"})->config_directory == "/etc/mail");
}

BOOST_AUTO_TEST_CASE(options_of_other_sendmails_are_taken) {
  BOOST_TEST(read({"-Am", "-c", "-d0.1", "-d", "-em", "-h", "3", "-L", "tag", "-m", "-n", "-om", "-p", "x", "-U", "-x",
                   "-X", "log", "-Oother=1"})
                 .has_value());
}

BOOST_AUTO_TEST_CASE(verp_is_asked_for_with_or_without_delimiters) {
  BOOST_TEST(read({"-XV"})->verp.value() == "");
  BOOST_TEST(read({"-XV-+"})->verp.value() == "-+");
  BOOST_TEST(!read({"-Xlog"})->verp.has_value());
}

BOOST_AUTO_TEST_CASE(what_notices_shall_say_is_passed_over_if_it_cannot_be_read) {
  const std::string longest(100, 'x'), longer(101, 'x');
  for (const std::vector<const char*>& words : {std::vector{"-N", "sometimes"},
                                                {"-N", "never,delay"},
                                                {"-N", ""},
                                                {"-R", "half"},
                                                {"-V", longer.c_str()},
                                                {"-V", "a\tb"}}) {
    auto all = words;
    all.push_back("to@example.com");
    const auto o = read(all);
    BOOST_REQUIRE_MESSAGE(o.has_value(), words[0] << " " << words[1]);
    BOOST_TEST(o->reading.notify == 0);
    BOOST_TEST((o->mail.ret == mail::Ret::unspecified));
    BOOST_TEST(o->mail.envid == "");
    BOOST_TEST(o->words.size() == 1U);
  }
  BOOST_TEST(read({"-V", longest.c_str()})->mail.envid == longest);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_meant_is_refused) {
  const auto refused = [](std::vector<const char*> words, const char* why) {
    const auto done = read(std::move(words));
    BOOST_REQUIRE(!done);
    BOOST_TEST(done.error().text.find(why) != std::string::npos, done.error().text);
  };
  refused({"-z"}, "sendmail: no such option: -z");
  refused({"-B", "9BIT"}, "-B: 7BIT or 8BITMIME, not 9BIT");
  refused({"-Osmtputf8=maybe"}, "-O smtputf8=: yes or no, not maybe");
  refused({"-qI"}, "-qI: what?");
  refused({"-qx"}, "-qx: only");
  refused({"-t", "-bp"}, "-t: not with");
  refused({"-qRexample.com", "-bp"}, "-qR: not with");
  refused({"-bp", "to@example.com"}, "recipients: not with");
  refused({"-bs", "to@example.com"}, "-bs takes the recipients from RCPT");
  refused({"-bv", "-t"}, "-bv reads no message");
  refused({"-bv", "-v", "to@example.com"}, "not with -v");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::tools
