#include <boost/test/unit_test.hpp>

#include "lib/send/mailbox/content.h"
#include "pipe/job.h"

using namespace pen;
using namespace pen::pipes;
using Words = std::vector<std::string>;

namespace {
struct Service {
  Service() {
    rules.service = "box";
    rules.delimiters = "+";
    message.envelope.sender = "Ada@Sender.Example";
    message.envelope.queue_id = "4ID";
    message.envelope.client.address = "192.0.2.1";
    message.envelope.client.sasl_username = "ada";
    message.nexthop = "Hop.Example";
    message.body = ipc::Content::in_memory("Subject: x\r\n\r\nbody\r\n");
    to("Jo+Lists@Here.Example");
  }
  void options(const Words& words) {
    auto o = parse_options(words);
    BOOST_REQUIRE_MESSAGE(o, (o ? "" : o.error()));
    rules.options = *o;
  }
  void to(std::string address, std::string original = "") {
    mail::Recipient r;
    r.address = std::move(address);
    r.original = std::move(original);
    recipients.push_back(std::move(r));
  }
  Words line(Words argv, const std::string& flags = "") {
    Words words = {"user=u", "flags=" + flags, "argv=prog"};
    words.insert(words.end(), argv.begin(), argv.end());
    options(words);
    auto out = command_line(rules, message, recipients);
    out.erase(out.begin());
    return out;
  }
  Rules rules;
  delivery::Incoming message;
  std::vector<mail::Recipient> recipients;
};
std::string error(const Words& words) {
  auto o = parse_options(words);
  return o ? "" : o.error();
}
}  // namespace

BOOST_FIXTURE_TEST_SUITE(pipe_service, Service)

BOOST_AUTO_TEST_CASE(a_service_is_read_as_master_cf_has_it) {
  options({"flags=DRhu", "user=vmail:mail", "size=1000", "eol=\\r\\n", "directory=/tmp", "argv=/usr/bin/maildrop", "-d",
           "${recipient}", "flags=x"});
  const Options& o = rules.options;
  BOOST_TEST((o.delivered_to && o.return_path && o.fold_domain && o.fold_user && !o.quote));
  BOOST_TEST(o.one_by_one());
  BOOST_TEST(o.user == "vmail");
  BOOST_TEST(o.group == "mail");
  BOOST_TEST(o.size_limit == 1000U);
  BOOST_TEST(o.eol == "\r\n");
  BOOST_TEST((o.argv == Words{"/usr/bin/maildrop", "-d", "${recipient}", "flags=x"}));
}

BOOST_AUTO_TEST_CASE(what_is_wrong_in_master_cf_is_said) {
  BOOST_TEST(error({"argv=x"}).starts_with("user= is missing"));
  BOOST_TEST(error({"user=u"}).starts_with("argv= is missing"));
  BOOST_TEST(error({"user=u", "argv="}).starts_with("argv= is missing"));
  BOOST_TEST(error({"user=u", "flags=Z", "argv=x"}).starts_with("flags=: there is no flag"));
  BOOST_TEST(error({"user=u:", "argv=x"}) == "user= needs user or user:group");
  BOOST_TEST(error({"user=u", "size=-1", "argv=x"}) == "size= needs a number of bytes");
  BOOST_TEST(error({"user=u", "chroot=x", "argv=x"}) == "chroot= needs an absolute path");
  BOOST_TEST(error({"user=u", "colour=red", "argv=x"}).starts_with("\"colour\" is not one of"));
  BOOST_TEST(error({"user=u", "-d", "argv=x"}).starts_with("\"-d\" is no name=value"));
}

BOOST_AUTO_TEST_CASE(escapes_of_eol_are_those_of_c) {
  BOOST_TEST(unescape("\\r\\n") == "\r\n");
  BOOST_TEST(unescape("a\\015\\12\\\\b\\") == "a\r\n\\b\\");
  BOOST_TEST(unescape("\\0017") == "\0017");
}

BOOST_AUTO_TEST_CASE(names_in_the_command_are_those_of_pipe) {
  BOOST_TEST((line({"$recipient", "${user}/${extension}", "$mailbox", "$domain", "${sender}"}) ==
              Words{"Jo+Lists@Here.Example", "Jo/Lists", "Jo+Lists", "Here.Example", "Ada@Sender.Example"}));
  BOOST_TEST((line({"$nexthop", "$queue_id", "$size", "$client_address", "$sasl_username", "$original_recipient",
                    "$$x"}) == Words{"Hop.Example", "4ID", "20", "192.0.2.1", "ada", "Jo+Lists@Here.Example", "$x"}));
}

BOOST_AUTO_TEST_CASE(a_word_of_a_recipient_is_there_once_for_each) {
  to("\"a b;rm\"@x.example");
  BOOST_TEST((line({"-s", "${sender}", "--", "to=${recipient}"}) ==
              Words{"-s", "Ada@Sender.Example", "--", "to=Jo+Lists@Here.Example", "to=a b;rm@x.example"}));
}

BOOST_AUTO_TEST_CASE(a_word_whose_names_have_no_value_keeps_its_place) {  // Postfix left it out until 20260717
  recipients.clear();
  to("jo@x.example");
  BOOST_TEST((line({"-e", "${extension}", "--", "${user}"}) == Words{"-e", "", "--", "jo"}));
}

BOOST_AUTO_TEST_CASE(flags_fold_and_quote_addresses) {
  to("\"A b\"@X.Example");
  BOOST_TEST((line({"$recipient"}, "h") == Words{"Jo+Lists@here.example", "A b@x.example"}));
  BOOST_TEST((line({"$recipient"}, "u") == Words{"jo+lists@Here.Example", "a b@X.Example"}));
  BOOST_TEST((line({"$recipient"}, "q") == Words{"Jo+Lists@Here.Example", "\"A b\"@X.Example"}));
  BOOST_TEST(
      (line({"$user", "$domain", "$nexthop"}, "hu") == Words{"jo", "a b", "here.example", "x.example", "hop.example"}));
}

BOOST_AUTO_TEST_CASE(a_value_is_never_looked_into_for_names) {
  recipients.clear();
  to("\"${sender}\"@x.example");
  BOOST_TEST((line({"$recipient"}) == Words{"${sender}@x.example"}));
}

BOOST_AUTO_TEST_CASE(the_null_sender_has_a_name_for_commands) {
  message.envelope.sender = "";
  BOOST_TEST((line({"${sender}"}) == Words{"MAILER-DAEMON"}));
  options({"user=u", "null_sender=", "flags=R", "argv=x", "${sender}"});
  BOOST_TEST((command_line(rules, message, recipients) == Words{"x", ""}));
  BOOST_TEST(work_for(rules, message, recipients, {}).message.fields == "Return-Path: <>\n");
}

BOOST_AUTO_TEST_CASE(flags_say_what_stands_before_the_content) {
  recipients[0].original = "Orig@x";
  options({"user=u", "flags=FDOR", "argv=x"});
  const auto work = work_for(rules, message, recipients, {});
  BOOST_TEST(work.command->from_line);
  BOOST_TEST(work.message.fields ==
             "Return-Path: <Ada@Sender.Example>\nX-Original-To: Orig@x\n"
             "Delivered-To: Jo+Lists@Here.Example\n");
  options({"user=u", "argv=x"});
  BOOST_TEST(work_for(rules, message, recipients, {}).message.fields == "");
}

BOOST_AUTO_TEST_CASE(each_flag_changes_its_own_part_of_the_content) {
  const auto work = [&](const std::string& flags) {
    options({"user=u", "flags=" + flags, "argv=x"});
    return *work_for(rules, message, recipients, {}).command;
  };
  for (const std::string flag : {"", "B", ">", ".", "F"}) {
    const auto command = work(flag);
    BOOST_TEST_CONTEXT("flags=" << flag) {
      BOOST_TEST(command.form.empty_line_at_end == (flag == "B"));
      BOOST_TEST(command.form.quote_from == (flag == ">"));
      BOOST_TEST(command.form.double_dots == (flag == "."));
      BOOST_TEST(command.from_line == (flag == "F"));
    }
  }
  // Flag X changes the answer, not the content.
  options({"user=u", "flags=X", "argv=x"});
  BOOST_TEST(rules.options.final_delivery);
}

BOOST_AUTO_TEST_CASE(addresses_that_look_like_options_are_refused) {
  options({"user=u", "argv=x", "$recipient"});
  BOOST_TEST(!objection(rules, message, recipients[0]));
  to("-oQ/tmp@x.example");
  BOOST_TEST(objection(rules, message, recipients[1])->dsn == "5.1.3");
  to("\"-x y\"@x.example");
  BOOST_TEST(objection(rules, message, recipients[2])->dsn == "5.1.3");
  rules.allow_minus = true;
  BOOST_TEST(!objection(rules, message, recipients[1]));
  rules.allow_minus = false;
  message.envelope.sender = "-x@y";
  BOOST_TEST(objection(rules, message, recipients[0])->dsn == "5.1.7");
}

BOOST_AUTO_TEST_CASE(messages_that_are_too_large_or_were_here_before_come_back) {
  options({"user=u", "size=10", "flags=D", "argv=x"});
  BOOST_TEST(objection(rules, message, recipients[0])->dsn == "5.2.3");
  rules.options.size_limit = 0;
  BOOST_TEST(!objection(rules, message, recipients[0]));
  message.header = "Delivered-To: jo+lists@here.example\r\n\r\n";
  BOOST_TEST(objection(rules, message, recipients[0])->dsn == "5.4.6");
}

BOOST_AUTO_TEST_SUITE_END()
