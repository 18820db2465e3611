#include "local/agent.h"

#include "lib/map/testing/table_server.h"
#include "local/agent_fixture.h"

using namespace pen;
using namespace pen::local;

BOOST_FIXTURE_TEST_SUITE(local_agent, Host)

BOOST_AUTO_TEST_CASE(a_user_gets_the_message_with_trace_fields) {
  BOOST_TEST(deliver(user + "@here.example").text == "delivered to maildir");
  BOOST_REQUIRE_EQUAL(box().size(), 1U);
  BOOST_TEST(box()[0] == "Return-Path: <ada@sender.example>\nX-Original-To: " + user +
                             "@here.example\nDelivered-To: " + user + "@here.example\nSubject: x\n\nbody\n");
}

BOOST_AUTO_TEST_CASE(an_extension_and_an_alias_lead_to_the_same_mailbox) {
  aliases = "inline:{ postmaster = " + user + " }";
  BOOST_TEST(deliver(user + "+lists@here.example").dsn == "2.0.0");
  BOOST_TEST(deliver("Postmaster@here.example").dsn == "2.0.0");
  BOOST_TEST(box().size() == 2U);
}

BOOST_AUTO_TEST_CASE(an_unknown_user_fails_unless_luser_relay_takes_him) {
  auto s = deliver("no-such-user@here.example");
  BOOST_TEST(s.dsn == "5.1.1");
  BOOST_TEST(s.text == "unknown user: \"no-such-user\"");
  rules.luser_relay = "catch+$user@relay.example";
  s = deliver("no-such-user@here.example");
  BOOST_TEST(s.text == "forwarded as NEW1");
  const auto relayed = [&] { return outbox.sent.back().envelope.recipients.at(0).address; };
  BOOST_TEST(relayed() == "catch+no-such-user@relay.example");
  rules.luser_relay = "$local.$extension.x@relay.example";
  for (const auto& [to, there] : {std::pair{"No-Such+Ext", "no-such+ext.ext.x"},
                                  {"\"No such+e\"", "\"no such+e.e.x\""},
                                  {"no-such", "\"no-such..x\""}}) {
    BOOST_TEST(deliver(std::string(to) + "@here.example").dsn == "2.0.0", to);
    BOOST_TEST(relayed() == std::string(there) + "@relay.example");
  }
}

BOOST_AUTO_TEST_CASE(what_answers_a_notice_is_thrown_away_where_nobody_wants_it) {
  for (const auto* name : {"mailer-daemon@here.example", "MAILER-DAEMON@here.example"}) {
    const auto s = deliver(name);
    BOOST_TEST(s.dsn == "2.0.0", name);
    BOOST_TEST(s.text == "discarded", name);
  }
  BOOST_TEST(deliver("postmaster2@here.example").dsn == "5.1.1");
  rules.luser_relay = "catch@relay.example";
  BOOST_TEST(deliver("mailer-daemon@here.example").text == "forwarded as NEW1");
}

BOOST_AUTO_TEST_CASE(Delivered_To_of_what_is_sent_on_is_in_lower_case) {
  aliases = "inline:{ {team = a@X.example} }";
  BOOST_TEST(deliver("Team@Here.Example").dsn == "2.0.0");
  BOOST_TEST(outbox.sent.at(0).fields == "Delivered-To: team@here.example\r\n");
  BOOST_TEST(outbox.sent.at(0).envelope.recipients.at(0).address == "a@X.example");
}

BOOST_AUTO_TEST_CASE(names_that_are_paths_are_unknown_users) {
  for (const auto* name : {"../root@here.example", "\"a/b\"@here.example", ".@here.example", "\"\"@here.example"})
    BOOST_TEST(deliver(name).dsn == "5.1.1", name);
}

BOOST_AUTO_TEST_CASE(an_alias_is_sent_on_as_one_message_with_what_the_sender_asked_for) {
  aliases = "inline:{ {team = a@x.example, b@x.example} }";
  notify = mail::notify::kSuccess | mail::notify::kFailure;
  message->envelope.envid = "e1";
  message->envelope.ret = mail::Ret::headers;
  const auto s = deliver("team@here.example");
  BOOST_TEST((s.action == mail::Action::expanded));
  BOOST_REQUIRE_EQUAL(outbox.sent.size(), 1U);
  const auto& next = outbox.sent[0];
  BOOST_TEST(next.fields == "Delivered-To: team@here.example\r\n");
  BOOST_TEST(next.envelope.sender == "ada@sender.example");
  BOOST_TEST(next.envelope.envid == "e1");
  BOOST_TEST((next.envelope.ret == mail::Ret::headers));
  BOOST_REQUIRE_EQUAL(next.envelope.recipients.size(), 2U);
  BOOST_TEST(next.envelope.recipients[0].original == "team@here.example");
  BOOST_TEST(next.envelope.recipients[0].orcpt == "rfc822;asked@for.example");
  BOOST_TEST(next.envelope.recipients[0].notify == mail::notify::kFailure);
}

BOOST_AUTO_TEST_CASE(nothing_that_the_poster_asked_for_goes_on_to_the_members_of_a_list) {
  aliases = "inline:{ {team = a@x.example, b@x.example}, {owner-team = boss} }";
  message->envelope.envid = "e1";
  message->envelope.ret = mail::Ret::headers;
  for (const auto asked : {mail::notify::kSuccess, mail::notify::kNever}) {
    outbox.sent.clear();
    notify = asked;
    // RFC 3461 section 5.2.7.3: the list has taken the message, and the poster may ask for no more.
    BOOST_TEST((deliver("team@here.example").action == mail::Action::delivered));
    BOOST_REQUIRE_EQUAL(outbox.sent.size(), 1U);
    const auto& next = outbox.sent[0];
    BOOST_TEST(next.fields == "Delivered-To: team@here.example\r\n");
    BOOST_TEST(next.envelope.sender == "owner-team@here.example");
    BOOST_TEST(next.envelope.envid.empty());
    BOOST_TEST((next.envelope.ret == mail::Ret::unspecified));
    BOOST_REQUIRE_EQUAL(next.envelope.recipients.size(), 2U);
    for (const auto& r : next.envelope.recipients) {
      BOOST_TEST(r.original.empty());
      BOOST_TEST(r.orcpt.empty());
      BOOST_TEST(r.notify == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_fails_under_a_list_is_told_to_its_owner) {
  prepare_commands();
  aliases =
      "inline:{ {team = \"|echo broken; exit 70\"}, {owner-team = boss}, {lost = no-such-user},"
      " {owner-lost = boss} }";
  notify = mail::notify::kNever;
  message->header = "Delivered-To: lost+x@here.example\r\n\r\n";
  for (const std::string name : {"team@here.example", "lost@here.example", "lost+x@here.example"}) {
    outbox.sent.clear();
    const auto s = deliver(name);
    BOOST_TEST((s.action == mail::Action::delivered));
    BOOST_TEST(s.text == "delivered to the list");
    BOOST_REQUIRE_EQUAL(outbox.sent.size(), 1U);
    const auto& told = outbox.sent[0].envelope;
    BOOST_TEST(told.sender == "owner-" + name.substr(0, 4) + "@here.example");
    const std::string why = name.starts_with("team") ? "error:5.3.0 internal error of the command."
                            : name.contains('+')     ? "error:5.4.6 mail forwarding loop"
                                                     : "error:5.1.1 unknown user";
    BOOST_TEST(told.transport.starts_with(why), told.transport);
    BOOST_REQUIRE_EQUAL(told.recipients.size(), 1U);
    BOOST_TEST(told.recipients[0].address == name);
    BOOST_TEST(told.recipients[0].notify == 0);
  }
  // The failure is not settled until the notice to the owner can be sent.
  outbox.broken = true;
  BOOST_TEST((deliver("team@here.example").action == mail::Action::deferred));
  outbox.broken = false;
  outbox.sent.clear();
  // A notice causes no other notice.
  message->envelope.sender.clear();
  BOOST_TEST((deliver("team@here.example").action == mail::Action::failed));
  BOOST_TEST(outbox.sent.empty());
}

BOOST_AUTO_TEST_CASE(what_fails_under_a_list_waits_with_soft_bounce_and_the_rest_is_not_repeated) {
  prepare_commands();
  aliases = "inline:{ {team = \"|echo 1 >> " + out("good") + "\", far@x.example, \"|echo 1 >> " + out("bad") +
            "; exit 70\"}, {owner-team = boss} }";
  message->soft_refusals = true;
  BOOST_TEST((deliver("team@here.example").action == mail::Action::failed));
  BOOST_TEST((again("team@here.example").action == mail::Action::failed));
  BOOST_TEST(text_of("good") == "1\n");
  BOOST_TEST(text_of("bad") == "1\n1\n");
  BOOST_REQUIRE_EQUAL(outbox.sent.size(), 1U);
  BOOST_TEST(outbox.sent[0].envelope.recipients.at(0).address == "far@x.example");
  message->soft_refusals = false;
  BOOST_TEST((again("team@here.example").action == mail::Action::delivered));
  BOOST_REQUIRE_EQUAL(outbox.sent.size(), 2U);
  BOOST_TEST(outbox.sent[1].envelope.transport.starts_with("error:5.3.0 "));
  BOOST_TEST(text_of("good") == "1\n");
}

BOOST_AUTO_TEST_CASE(a_probe_leaves_nothing_behind_as_done) {
  rules.default_privs = "root";  // no command can be run
  aliases = alias("team", "far@x.example, \"|true\"");
  message->envelope.purpose = mail::Purpose::probe;
  BOOST_TEST((deliver("team@here.example").action == mail::Action::deferred));
  message->envelope.purpose = mail::Purpose::mail;
  BOOST_TEST((again("team@here.example").action == mail::Action::deferred));
  BOOST_TEST(outbox.sent.size() == 1U);
}

BOOST_AUTO_TEST_CASE(links_in_the_home_directory_of_a_file_below_it_are_followed) {
  mailbox::Target target;
  aim_below_home("/home/bob", "~/Maildir/", target);
  BOOST_TEST(target.base == "/home/bob");
  BOOST_TEST(target.path == "Maildir/");
  BOOST_TEST(target.follow_links);
  aim_below_home("/home/bob", "~//mail/box", target);
  BOOST_TEST(target.path == "mail/box");
  aim_below_home("/home/bob", "~/", target);
  BOOST_TEST(target.path == "");
  for (const auto* up : {"~/../x", "~/a/..", "~/a/../b"}) {
    mailbox::Target plain;
    aim_below_home("/home/bob", up, plain);
    BOOST_TEST(!plain.follow_links, up);
  }
}

BOOST_AUTO_TEST_CASE(an_include_file_of_a_user_is_bounded_more_narrowly_than_the_administrators) {
  const std::string big = "far@x.example\n#" + std::string(mailbox::kMaxUserInclude, 'x') + "\n";
  const auto list = forward_file("list", big);
  BOOST_REQUIRE(::chmod(scratch.path().c_str(), 01777) == 0);
  aliases = alias("team", ":include:" + list);
  BOOST_TEST((deliver("team@here.example").action == mail::Action::expanded));
  rules.forward_paths = {forward_file("fwd", ":include:" + list + "\n")};
  const auto s = deliver(user + "@here.example");
  BOOST_TEST((s.action == mail::Action::deferred));
  BOOST_TEST(s.text.contains("File too large"), s.text);
}

BOOST_AUTO_TEST_CASE(an_include_file_of_an_alias_is_not_read_as_root,
                     *boost::unit_test::precondition([](boost::unit_test::test_unit_id) { return ::geteuid() == 0; })) {
  BOOST_REQUIRE(::chmod(scratch.path().c_str(), 01777) == 0);
  const auto secret = scratch.write("secret", "a word of root's@x.example\n");
  BOOST_REQUIRE(::chmod(secret.c_str(), 0600) == 0);
  fs::create_symlink(secret, scratch.file("list"));
  aliases = alias("team", ":include:" + scratch.file("list"));
  const auto s = deliver("team@here.example");
  BOOST_TEST((s.action == mail::Action::deferred));
  BOOST_TEST(s.text.contains("Permission denied"), s.text);
}

BOOST_AUTO_TEST_CASE(include_files_that_take_too_long_to_read_make_mail_wait) {
  BOOST_REQUIRE(::chmod(scratch.path().c_str(), 0755) == 0);
  const auto list = scratch.write("list", "far@x.example\n");
  aliases = alias("team", ":include:" + list);
  BOOST_TEST((deliver("team@here.example").action == mail::Action::expanded));
  rules.include_time = seconds(0);
  const auto s = deliver("team@here.example");
  BOOST_TEST((s.action == mail::Action::deferred));
  BOOST_TEST(s.text.contains("cannot be read now"), s.text);
}

BOOST_AUTO_TEST_CASE(a_file_in_the_home_directory_is_named_with_a_tilde) {
  prepare_commands();
  rules.expansion.files = {true, true, true};
  const passwd* entry = ::getpwnam(user.c_str());
  const std::string home = entry->pw_dir;
  // Home directories must stay clean: use a path from there to the scratch directory.
  const auto here = "~/" + fs::relative(fs::path(out("")), home).string();
  const auto path = forward_file("fwd", here + "/box, " + here + "/Maildir/\n");
  rules.forward_paths = {path};
  auto s = deliver(user + "@here.example");
  BOOST_TEST((s.action == mail::Action::delivered), s.text);
  BOOST_TEST(s.text.contains(home + "/.."), s.text);
  BOOST_TEST(text_of("box").contains("\nSubject: x\n\nbody\n"));
  BOOST_TEST(!fs::is_empty(out("Maildir/new")));
  forward_file("fwd", "~other/box\n");
  BOOST_TEST(deliver(user + "@here.example").dsn == "5.3.5");
  // An alias of root's belongs to nobody, and has no home.
  aliases = alias("archive", "~/box");
  BOOST_TEST(deliver("archive@here.example").dsn == "5.3.5");
}

BOOST_AUTO_TEST_CASE(a_path_of_forward_path_counts_if_every_name_in_it_has_a_value) {
  const auto plain = forward_file("fwd", "far@x.example\n");
  forward_file("fwd+lists", "lists@x.example\n");
  rules.expansion.propagate.forward = true;
  rules.forward_paths = {plain + "${extension?+$extension}"};
  deliver(user + "@here.example");
  deliver(user + "+lists@here.example");
  rules.forward_paths = {plain + "$recipient_delimiter$extension", plain};
  deliver(user + "@here.example");
  deliver(user + "+other@here.example");
  // An extension that is not in the file's name stays in the addresses, whatever they end in.
  rules.forward_paths = {plain};
  deliver(user + "+wd@here.example");
  std::vector<std::string> to;
  for (const auto& next : outbox.sent) to.push_back(next.envelope.recipients.at(0).address);
  const std::vector<std::string> expected = {"far@x.example", "lists@x.example", "far@x.example", "far+other@x.example",
                                             "far+wd@x.example"};
  BOOST_TEST(to == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(why_a_forward_file_is_not_obeyed_is_told) {
  const Shared shared{rules, {}};
  const auto told = [&](const std::string& path) {
    Shared with = shared;
    with.rules.forward_paths = {path, forward_file("second", "far@x.example\n")};
    message->body = ipc::Content::in_memory(text);
    Delivery task;
    task.message = message;
    task.recipient.address = user + "@here.example";
    const auto out = deliver_to_user(with, task, user, false, tables_for(with, user));
    BOOST_TEST((out.status && out.status->text == "delivered to maildir"), path);
    return out.warning;
  };
  const auto open = forward_file("open", "far@x.example\n");
  BOOST_REQUIRE(::chmod(open.c_str(), 0666) == 0);
  BOOST_TEST(told(open) ==
             "forward file not obeyed: " + open + " may be written by everybody: " + "Operation not permitted");
  const auto link = scratch.file("link");
  BOOST_REQUIRE(::symlink(open.c_str(), link.c_str()) == 0);
  BOOST_TEST(told(link).starts_with("forward file not obeyed: cannot read " + link));
  BOOST_REQUIRE(::mkdir(scratch.file("folder").c_str(), 0755) == 0);
  BOOST_TEST(told(scratch.file("folder")).contains("is not a regular file"));
  BOOST_TEST(told(forward_file("empty", "")) == "");
  if (::geteuid() != 0) return;
  const auto strange = scratch.write("strange", "far@x.example\n");
  BOOST_REQUIRE(::chown(strange.c_str(), 54321, 0) == 0);
  BOOST_TEST(told(strange) == "forward file not obeyed: " + strange + " belongs to uid 54321");
}

BOOST_AUTO_TEST_CASE(mail_from_the_null_sender_stays_from_it_through_a_list_with_owner) {
  aliases = "inline:{ {team = a@x.example, b@x.example}, {owner-team = boss} }";
  message->envelope.sender = "";
  deliver("team@here.example");
  BOOST_TEST(outbox.sent.at(0).envelope.sender == "");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_sent_on_is_deferred) {
  aliases = "inline:{ {team = a@x.example, b@x.example} }";
  outbox.broken = true;
  BOOST_TEST((deliver("team@here.example").action == mail::Action::deferred));
}

BOOST_AUTO_TEST_CASE(mail_that_was_here_before_is_a_loop) {
  message->header = "Delivered-To: " + user + "@here.example\r\n\r\n";
  const auto s = deliver(user + "@here.example");
  BOOST_TEST(s.dsn == "5.4.6");
  BOOST_TEST(box().empty());
}

BOOST_AUTO_TEST_CASE(a_broken_alias_table_defers) {
  aliases = "fail:x";
  BOOST_TEST((deliver(user + "@here.example").action == mail::Action::deferred));
  BOOST_TEST(box().empty());
}

BOOST_AUTO_TEST_CASE(root_without_alias_is_not_delivered_as_root) {
  if (::geteuid() != 0) return;
  rules.default_privs = user;
  BOOST_TEST(deliver("root@here.example").text == "delivered to maildir");
  struct stat st{};
  BOOST_REQUIRE(::stat((scratch.path() / "root").c_str(), &st) == 0);
  BOOST_TEST(st.st_uid == uid);
  rules.default_privs = "root";
  BOOST_TEST((deliver("root@here.example").action == mail::Action::deferred));
}

BOOST_AUTO_TEST_CASE(a_mailbox_that_another_user_planted_is_not_used) {
  if (::geteuid() != 0) return;
  fs::create_directory(scratch.path() / user);  // owned by root, not by the user
  BOOST_TEST((deliver(user + "@here.example").action == mail::Action::deferred));
  BOOST_TEST(fs::is_empty(scratch.path() / user));
}

BOOST_AUTO_TEST_CASE(a_command_of_an_alias_runs_with_default_privs_and_gets_the_mbox_form) {
  prepare_commands();
  aliases = alias("box", "\"|cat > " + out("got") + "; env > " + out("env") + "; id -u > " + out("id") + "\"");
  message->envelope.client.helo = "evil\nPATH=/tmp;$(x)";
  rules.exported = {"TZ=UTC"};
  BOOST_TEST(deliver("box+a`b@here.example").text.starts_with("delivered to command: cat > "));
  const auto got = text_of("got");
  BOOST_TEST(got.starts_with("From ada@sender.example  "));
  BOOST_TEST(got.find("\nReturn-Path: <ada@sender.example>\nX-Original-To: box+a`b@here.example\n"
                      "Delivered-To: box+a`b@here.example\nSubject: x\n\nbody\n") != std::string::npos);
  BOOST_TEST(text_of("id") == std::to_string(uid) + "\n");
  const auto env = "\n" + text_of("env");
  for (const auto* line : {"TZ=UTC", "SENDER=ada@sender.example", "RECIPIENT=box+a_b@here.example", "LOCAL=box+a_b",
                           "EXTENSION=a_b", "DOMAIN=here.example", "CLIENT_HELO=evil_PATH=/tmp___x_"})
    BOOST_TEST(env.find("\n" + std::string(line) + "\n") != std::string::npos, line);
  BOOST_TEST(env.find("\nHOME=") == std::string::npos);  // it belongs to nobody in particular
}

BOOST_AUTO_TEST_CASE(mailbox_command_runs_as_the_user_with_his_environment) {
  prepare_commands();
  rules.mailbox_command = "id -un > " + out("id") + "; echo $USER $LOGNAME $EXTENSION > " + out("env");
  BOOST_TEST(deliver(user + "+ext@here.example").dsn == "2.0.0");
  BOOST_TEST(text_of("id") == user + "\n");
  BOOST_TEST(text_of("env") == user + " " + user + " ext\n");
  BOOST_TEST(box().empty());
  rules.mailbox_commands = *map::MapList::open("inline:{ {" + user + " = exit 75} }");
  BOOST_TEST((deliver(user + "@here.example").action == mail::Action::deferred));
}

BOOST_AUTO_TEST_CASE(a_file_of_an_alias_is_appended_to_in_mbox_form) {
  prepare_commands();
  aliases = alias("arch", out("archive"));
  BOOST_TEST(deliver("arch@here.example").text == "delivered to file: " + out("archive"));
  deliver("arch@here.example");
  const auto got = text_of("archive");
  BOOST_TEST(got.starts_with("From ada@sender.example  "));
  BOOST_TEST(got.find("\n\nFrom ada@sender.example  ") != std::string::npos);
  struct stat st{};
  BOOST_REQUIRE(::stat(out("archive").c_str(), &st) == 0);
  BOOST_TEST((st.st_mode & 0777) == 0600U);
  if (::geteuid() == 0) BOOST_TEST(st.st_uid == uid);
}

BOOST_AUTO_TEST_CASE(a_file_that_is_a_link_a_program_or_no_file_is_not_written) {
  prepare_commands();
  std::ofstream(out("victim")) << "x\n";
  fs::create_symlink(out("victim"), out("link"));
  fs::create_hard_link(out("victim"), out("second"));
  std::ofstream(out("program")) << "x\n";
  BOOST_REQUIRE(::chmod(out("program").c_str(), 0777) == 0);
  BOOST_REQUIRE(::chmod(out("victim").c_str(), 0666) == 0);
  BOOST_REQUIRE(::mkfifo(out("fifo").c_str(), 0666) == 0);
  for (const auto* name : {"link", "second", "program", "fifo"}) {
    aliases = alias("arch", out(name));
    BOOST_TEST((deliver("arch@here.example").action != mail::Action::delivered), name);
  }
  BOOST_TEST(text_of("victim") == "x\n");
  BOOST_TEST(text_of("program") == "x\n");
}

BOOST_AUTO_TEST_CASE(of_several_destinations_only_what_failed_is_tried_again) {
  prepare_commands();
  aliases =
      alias("team", "\"|echo 1 >> " + out("good") + "\", far@x.example, \"|echo 1 >> " + out("bad") + "; exit 75\"");
  BOOST_TEST((deliver("team@here.example").action == mail::Action::deferred));
  BOOST_TEST((again("team@here.example").action == mail::Action::deferred));
  BOOST_TEST(text_of("good") == "1\n");
  BOOST_TEST(text_of("bad") == "1\n1\n");
  BOOST_TEST(outbox.sent.size() == 1U);
  message->envelope.queue_id = "4OTHER";
  again("team@here.example");
  BOOST_TEST(text_of("good") == "1\n1\n");
}

BOOST_AUTO_TEST_CASE(a_user_within_his_own_alias_has_his_forward_file_followed) {
  rules.forward_paths = {forward_file("fwd", "kept@x.example\n")};
  aliases = alias(user, user + ", far@x.example");
  BOOST_TEST((deliver(user + "@here.example").action == mail::Action::expanded));
  BOOST_REQUIRE_EQUAL(outbox.sent.size(), 2U);
  BOOST_TEST(outbox.sent[0].envelope.recipients.at(0).address == "kept@x.example");
  BOOST_TEST(outbox.sent[1].envelope.recipients.at(0).address == "far@x.example");
  BOOST_TEST(box().empty());
  aliases = alias(user, "\\" + user);
  BOOST_TEST(deliver(user + "@here.example").text == "delivered to maildir");
}

BOOST_AUTO_TEST_CASE(a_forward_file_that_names_its_user_in_any_way_ends_in_the_mailbox) {
  aliases = alias("self", user);
  rules.ours = [](const std::string& address) -> Result<bool> {
    return address.ends_with("@second.example") || address.ends_with("@here.example");
  };
  std::size_t boxes = 0;
  for (const auto& self : std::vector<std::string>{user, user + "+x", "self", user + "@second.example",
                                                   "self@second.example", "\\" + user}) {
    rules.forward_paths = {forward_file("fwd", self + ", far@x.example\n")};
    BOOST_TEST((deliver(user + "@here.example").action != mail::Action::deferred), self);
    BOOST_TEST(box().size() == ++boxes, self);
    BOOST_TEST(outbox.sent.size() == boxes, self);
  }
  deliver("self@here.example");
  BOOST_TEST(box().size() == boxes + 1);
}

BOOST_AUTO_TEST_CASE(a_forward_file_for_an_extension_may_lead_to_the_one_without) {
  rules.forward_filter = "+/-_.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const auto plain = forward_file("fwd", user + "+lists, far@x.example\n");
  forward_file("fwd+lists", user + "\n");
  rules.forward_paths = {plain + "${recipient_delimiter}${extension}", plain};
  // fwd+lists leads to fwd, which leads back to fwd+lists: the mailbox gets the mail
  BOOST_TEST((deliver(user + "+lists@here.example").action == mail::Action::expanded));
  BOOST_TEST(box().size() == 1U);
  BOOST_TEST(outbox.sent.size() == 1U);
}

BOOST_AUTO_TEST_CASE(forward_files_that_lead_to_one_another_are_followed_once_each) {
  prepare_commands();
  BOOST_REQUIRE(::chmod(scratch.path().c_str(), 01777) == 0);
  rules.forward_filter = "+/-_.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  std::string every = "\"|echo 1 >> " + out("count") + "\"\n" + user + "\n";
  constexpr int kFiles = 7;  // 7! ways through these files
  for (int i = 1; i <= kFiles; ++i) every += user + "+" + std::to_string(i) + "\n";
  const auto plain = forward_file("fwd", every);
  for (int i = 1; i <= kFiles; ++i) forward_file("fwd+" + std::to_string(i), every);
  rules.forward_paths = {plain + "${recipient_delimiter}${extension}", plain};
  BOOST_TEST((deliver(user + "@here.example").action == mail::Action::delivered));
  BOOST_TEST(text_of("count").size() == 2U * (kFiles + 1));
  BOOST_TEST(box().size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_mailbox_gets_the_message_once_whatever_leads_to_it) {
  const auto& u = user;
  for (const auto& [alias_value, forward] : std::vector<std::pair<std::string, std::string>>{
           {"", "\\" + u + ", staff"}, {"", u + ", " + u + "+x"}, {u + ", \\" + u, ""}, {u + ", " + u + "+x", ""}}) {
    fs::remove_all(scratch.path() / user);
    aliases = "inline:{ {staff = " + u + ", carol}" +
              (alias_value.empty() ? "" : ", {" + u + " = " + alias_value + "}") + " }";
    rules.forward_paths.clear();
    if (!forward.empty()) rules.forward_paths = {forward_file("fwd", forward + "\n")};
    BOOST_TEST((deliver(u + "@here.example").action != mail::Action::failed));
    BOOST_TEST(box().size() == 1U, alias_value + " / " + forward);
    deliver(u + "@here.example");  // a second message
    BOOST_TEST(box().size() == 2U, alias_value + " / " + forward);
  }
  prepare_commands();  // a command may depend on the extension
  rules.forward_paths.clear();
  rules.mailbox_command = "echo .$EXTENSION >> " + out("got");
  aliases = alias(u, u + ", " + u + "+x, \\" + u);
  deliver(u + "@here.example");
  BOOST_TEST(text_of("got") == ".\n.x\n");
}

BOOST_AUTO_TEST_CASE(members_whose_forward_files_name_their_list_get_and_send_no_second_copy) {
  rules.forward_paths = {forward_file("fwd", "team\n")};
  aliases = alias("team", user + ", far@x.example");
  deliver(user + "@here.example");
  BOOST_REQUIRE_EQUAL(outbox.sent.size(), 1U);
  const auto& first = outbox.sent[0];
  BOOST_TEST(first.envelope.recipients.at(0).address == "far@x.example");
  BOOST_TEST(first.fields == "Delivered-To: " + user + "@here.example\r\nDelivered-To: team@here.example\r\n");
  BOOST_TEST(box().size() == 1U);
  message->header = "Delivered-To: team@here.example\r\n\r\n";  // the list through which the message came
  deliver(user + "@here.example");
  BOOST_TEST(outbox.sent.size() == 1U);
  BOOST_TEST(box().size() == 2U);
}

BOOST_AUTO_TEST_CASE(the_same_place_by_alias_and_by_forward_file_is_two_when_one_is_tried_again) {
  prepare_commands();
  const auto count = "\"|echo 1 >> " + out("count") + "\"";
  const auto gate = out("gate");
  // The alias's command and the forward file's have the same text; the forward file's other command waits for the gate.
  rules.forward_paths = {forward_file("fwd", "\"|test -e " + gate + " || exit 75\", " + count + "\n")};
  aliases = alias(user, count + ", " + user);
  BOOST_TEST((deliver(user + "@here.example").action == mail::Action::deferred));
  BOOST_TEST(text_of("count") == "1\n1\n");
  BOOST_TEST((again(user + "@here.example").action == mail::Action::deferred));
  BOOST_TEST(text_of("count") == "1\n1\n");
  std::ofstream(gate) << "x";
  BOOST_TEST((again(user + "@here.example").action == mail::Action::delivered));
  BOOST_TEST(text_of("count") == "1\n1\n");
}

BOOST_AUTO_TEST_CASE(the_mailbox_named_within_a_forward_file_does_not_stand_for_the_whole_of_it) {
  prepare_commands();
  BOOST_REQUIRE(::chmod(scratch.path().c_str(), 01777) == 0);
  const auto gate = out("gate");
  rules.forward_paths = {
      forward_file("fwd", user + ", \"|test -e " + gate + " || exit 75; touch " + out("ran") + "\"\n")};
  aliases = alias(user, user + ", \"|true\"");
  BOOST_TEST((deliver(user + "@here.example").action == mail::Action::deferred));
  BOOST_TEST(box().size() == 1U);
  std::ofstream(gate) << "x";
  BOOST_TEST((again(user + "@here.example").action == mail::Action::delivered));
  BOOST_TEST(fs::exists(out("ran")));
  BOOST_TEST(box().size() == 1U);
}

BOOST_AUTO_TEST_CASE(from_the_null_sender_each_list_within_an_alias_is_sent_its_own) {
  aliases = "inline:{ {all = a@x.example, some}, {some = b@x.example}, {owner-some = boss} }";
  message->envelope.sender = "";
  deliver("all@here.example");
  BOOST_REQUIRE_EQUAL(outbox.sent.size(), 2U);
  for (const auto& next : outbox.sent) BOOST_TEST(next.envelope.sender == "");
  BOOST_TEST(outbox.sent[0].envelope.recipients.at(0).orcpt == "rfc822;asked@for.example");
  BOOST_TEST(outbox.sent[1].envelope.recipients.at(0).orcpt == "");
}

BOOST_AUTO_TEST_CASE(a_command_that_fails_for_good_does_not_keep_a_list_from_the_others) {
  prepare_commands();
  aliases = alias("team", "far@x.example, \"|exit 67\"");
  const auto s = deliver("team@here.example");
  BOOST_TEST((s.action == mail::Action::failed));
  BOOST_TEST(s.dsn == "5.1.1");
  BOOST_TEST(outbox.sent.size() == 1U);
}

BOOST_AUTO_TEST_CASE(commands_and_files_can_be_forbidden) {
  prepare_commands();
  rules.expansion.commands = rules.expansion.files = {};
  aliases = alias("x", "\"|touch " + out("made") + "\", " + out("made"));
  BOOST_TEST(deliver("x@here.example").dsn == "5.7.1");
  BOOST_TEST(!fs::exists(out("made")));
}

BOOST_AUTO_TEST_CASE(commands_of_aliases_never_run_as_root) {
  prepare_commands();
  rules.default_privs = "root";
  aliases = alias("x", "\"|touch " + out("made") + "\"");
  BOOST_TEST((deliver("x@here.example").action == mail::Action::deferred));
  BOOST_TEST(!fs::exists(out("made")));
}

BOOST_AUTO_TEST_CASE(the_owner_of_an_alias_table_runs_its_commands) {
  if (::geteuid() != 0) return;
  prepare_commands();
  rules.default_privs = "nobody";
  const auto table = scratch.write("aliases", "x \"|id -un > " + out("id") + "\"\n");
  BOOST_REQUIRE(::chown(table.c_str(), uid, 0) == 0);
  aliases = "texthash:" + table;
  BOOST_TEST(deliver("x@here.example").dsn == "2.0.0");
  BOOST_TEST(text_of("id") == user + "\n");
  BOOST_REQUIRE(::chown(table.c_str(), 54321, 0) == 0);  // a uid without account
  BOOST_TEST((deliver("x@here.example").action == mail::Action::deferred));
}

BOOST_AUTO_TEST_CASE(mail_for_a_user_without_the_home_that_is_required_waits) {
  rules.require_home = true;
  const passwd* entry = ::getpwnam(user.c_str());
  const bool there = fs::exists(entry->pw_dir);
  BOOST_TEST((deliver(user + "@here.example").action == mail::Action::delivered) == there);
}

BOOST_AUTO_TEST_CASE(what_takes_a_users_mail_is_told_the_user_and_not_his_alias) {
  prepare_commands();
  aliases = alias("postmaster", user + "+Ext");
  rules.mailbox_command = "echo $RECIPIENT $LOCAL $ORIGINAL_RECIPIENT > " + out("env") + "; cat > " + out("got");
  BOOST_TEST(deliver("postmaster@there.example").dsn == "2.0.0");
  BOOST_TEST(text_of("env") == user + "+Ext@here.example " + user + "+Ext postmaster@there.example\n");
  BOOST_TEST(text_of("got").find("\nDelivered-To: postmaster@there.example\n") != std::string::npos);
  rules.mailbox_transport = "lmtp:there";
  BOOST_TEST(deliver("postmaster@there.example").dsn == "2.0.0");
  BOOST_TEST(deliver(user + "+Ext@there.example").dsn == "2.0.0");
  aliases = alias("postmaster", "\"no body\"");
  rules.mailbox_transport = "";
  rules.fallback_transport = "lmtp:there";
  BOOST_TEST(deliver("postmaster@there.example").dsn == "2.0.0");
  BOOST_REQUIRE_EQUAL(outbox.sent.size(), 3U);
  const auto& known = outbox.sent[0].envelope.recipients.at(0);
  BOOST_TEST(known.address == user + "+Ext@here.example");
  BOOST_TEST(known.original == "postmaster@there.example");
  BOOST_TEST(outbox.sent[1].envelope.recipients.at(0).address == user + "+Ext@there.example");
  BOOST_TEST(outbox.sent[2].envelope.recipients.at(0).address == "\"no body\"@here.example");
}

BOOST_AUTO_TEST_CASE(an_alias_that_is_empty_for_a_moment_does_not_return_mail) {
  BOOST_REQUIRE(::chmod(scratch.path().c_str(), 0755) == 0);
  const auto list = scratch.write("list", "# being written\n");
  aliases = alias("team", ":include:" + list);
  const auto s = deliver("team@here.example");
  BOOST_TEST((s.action == mail::Action::deferred));
  BOOST_TEST(s.dsn == "4.3.0");
  BOOST_TEST(s.text == "the alias has no destinations");
}

BOOST_AUTO_TEST_CASE(a_forward_file_without_destinations_means_the_mailbox_and_no_other_file_counts) {
  const auto plain = forward_file("fwd", "far@x.example\n");
  forward_file("fwd+lists", "# not now\n");
  rules.forward_paths = {plain + "$recipient_delimiter$extension", plain};
  BOOST_TEST((deliver(user + "+lists@here.example").action == mail::Action::delivered));
  BOOST_TEST(outbox.sent.empty());
  BOOST_TEST(!box().empty());
}

BOOST_AUTO_TEST_CASE(an_extension_with_a_slash_does_not_hide_the_forward_file) {
  const auto path = forward_file("fwd", "far@x.example\n");
  rules.expansion.propagate.forward = true;
  rules.forward_filter = "/+.-_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@";
  rules.forward_paths = {scratch.file("${local}"), path + "${recipient_delimiter}${extension}", path};
  BOOST_TEST(deliver(user + "+/../fwd@here.example").text == "forwarded as NEW1");
  BOOST_REQUIRE_EQUAL(outbox.sent.size(), 1U);
  BOOST_TEST(outbox.sent[0].envelope.recipients.at(0).address == "far@x.example");
  BOOST_TEST(box().empty());
}

BOOST_AUTO_TEST_CASE(fallback_transport_maps_comes_before_fallback_transport_and_luser_relay) {
  auto maps = map::MapList::open("inline:{ {moved = lmtp:unix:/there} }");
  BOOST_REQUIRE(maps);
  rules.fallback_transports = *std::move(maps);
  rules.luser_relay = "catch@relay.example";
  deliver("moved@here.example");
  deliver("other@here.example");
  rules.fallback_transport = "smtp:[away.example]";
  deliver("other@here.example");
  deliver(user + "@here.example");
  BOOST_REQUIRE_EQUAL(outbox.sent.size(), 3U);
  BOOST_TEST(outbox.sent[0].envelope.transport == "lmtp:unix:/there");
  BOOST_TEST(outbox.sent[1].envelope.recipients.at(0).address == "catch@relay.example");
  BOOST_TEST(outbox.sent[2].envelope.transport == "smtp:[away.example]");
  BOOST_TEST(box().size() == 1U);
}

BOOST_AUTO_TEST_CASE(command_execution_directory_is_where_commands_begin_its_filter_cleans_values) {
  prepare_commands();
  fs::create_directory(scratch.path() / "in_x_y");
  rules.directory = scratch.path().string() + "/in_$extension";
  rules.directory_filter = "abcdefghijklmnopqrstuvwxyz";
  aliases = alias("robot", "\"|pwd > " + out("pwd") + "\"");
  BOOST_TEST(deliver("robot+x/y@here.example").dsn == "2.0.0");
  BOOST_TEST(text_of("pwd") == scratch.file("in_x_y") + "\n");
  const auto s = deliver("robot+none@here.example");
  BOOST_TEST((s.action == mail::Action::deferred));
  BOOST_TEST(s.text.contains("cannot begin in the directory"), s.text);
}

BOOST_AUTO_TEST_CASE(prepend_delivered_header_says_where_delivered_to_is_put) {
  prepare_commands();
  BOOST_REQUIRE(::chmod(scratch.path().c_str(), 01777) == 0);
  rules.expansion.files = {true, true, true};
  aliases = "inline:{ {robot = \"|cat > " + out("got") + "\"}, {file = " + out("file") + "}, {far = far@x.example} }";
  for (const bool mark : {true, false}) {
    rules.mark_files = rules.mark_forwards = rules.mark_commands = mark;
    outbox.sent.clear();
    fs::remove(out("file"));
    for (const char* name : {"robot", "file", "far"}) deliver(std::string(name) + "@here.example");
    BOOST_TEST(text_of("got").contains("X-Original-To: robot@here.example\n"));
    BOOST_TEST(text_of("got").contains("Delivered-To: robot@here.example\n") == mark);
    BOOST_TEST(text_of("file").contains("Delivered-To: file@here.example\n") == mark);
    BOOST_REQUIRE_EQUAL(outbox.sent.size(), 1U);
    BOOST_TEST(outbox.sent[0].fields.contains("Delivered-To: far@here.example\r\n") == mark);
  }
}

BOOST_AUTO_TEST_CASE(strict_mailbox_ownership_decides_over_a_mailbox_of_somebody_else) {
  if (::geteuid() != 0) return;
  rules.mail_spool_directory = scratch.path().string();
  const auto path = scratch.write(user, "");
  BOOST_REQUIRE(::chown(path.c_str(), 54321, 0) == 0);
  BOOST_REQUIRE(::chmod(path.c_str(), 0666) == 0);
  BOOST_TEST((deliver(user + "@here.example").action == mail::Action::deferred));
  BOOST_TEST(fs::is_empty(path));
  rules.strict_ownership = false;
  const auto s = deliver(user + "@here.example");
  BOOST_TEST((s.action == mail::Action::delivered), s.text);
  BOOST_TEST(!fs::is_empty(path));
}

BOOST_AUTO_TEST_CASE(a_hanging_home_directory_holds_up_nobody_else) {
  prepare_commands();
  rules.mailbox_command = hanging();
  std::string table;  // with as many addresses as the user likes
  for (int i = 0; i < 6; ++i) table += fmt::format(", {{a{} = {}}}", i, user);
  six_that_hang("a", table);
}

BOOST_AUTO_TEST_CASE(a_hanging_command_of_a_forward_file_holds_up_nobody_else) {
  prepare_commands();
  rules.forward_paths = {forward_file("fwd", "\"|" + hanging() + "\"\n")};
  six_that_hang(user + "+", "");
}

BOOST_AUTO_TEST_CASE(a_hanging_command_of_an_alias_holds_up_no_other) {
  prepare_commands();
  six_that_hang("hang+", ", {hang = \"|" + hanging() + "\"}");
}

// A table server that hangs for as many users as there are threads for deliveries costs them alone.
BOOST_AUTO_TEST_CASE(a_hanging_table_server_holds_up_nobody_who_does_not_need_it) {
  prepare_commands();
  const std::string table = "socketmap:unix:" + scratch.file("tables") + ":users";
  message->body = ipc::Content::in_memory(text);
  for (map::MapList Rules::* setting : {&Rules::mailbox_transports, &Rules::fallback_transports}) {
    Rules with = rules;
    with.*setting = map::MapList::open(table).value();
    map::TableServer server(loop, scratch.file("tables"));
    auto names = map::MapList::open("inline:{ {robot = \"|cat > " + out("robot") + "\"} }");
    BOOST_REQUIRE(names);
    agent = std::make_unique<Agent>(loop, lookups, pool, outbox, with, *std::move(names), random);
    std::vector<mail::DeliveryStatus> users(6);
    for (std::size_t i = 0; i < users.size(); ++i)
      loop.spawn("user", deliver_one(this, fmt::format("hang{}@here.example", i), &users[i]));
    turn_until([&] { return server.hanging == users.size(); });
    mail::DeliveryStatus robot;
    loop.spawn("robot", deliver_one(this, "robot@here.example", &robot));
    turn_until([&] { return !robot.text.empty(); });
    BOOST_TEST((robot.action == mail::Action::delivered), robot.text);
    BOOST_TEST(server.hanging == users.size());
    server.let_go();
    turn_until([&] { return std::ranges::none_of(users, [](const auto& s) { return s.text.empty(); }); });
    for (const auto& s : users) BOOST_TEST(s.text.starts_with("unknown user: \"hang"), s.text);
  }
}

BOOST_AUTO_TEST_CASE(a_delivery_that_gets_no_turn_in_time_is_tried_again) {
  rules.share = 1;
  rules.patience = seconds(0);
  message->body = ipc::Content::in_memory(text);
  auto table = map::MapList::open("inline:{ {a0 = " + user + "}, {a1 = " + user + "} }");
  BOOST_REQUIRE(table);
  agent = std::make_unique<Agent>(loop, lookups, pool, outbox, rules, *std::move(table), random);
  std::vector<mail::DeliveryStatus> his(2);
  for (std::size_t i = 0; i < his.size(); ++i)
    loop.spawn("his", deliver_one(this, fmt::format("a{}@here.example", i), &his[i]));
  loop.run();
  BOOST_TEST((his[0].action == mail::Action::delivered) != (his[1].action == mail::Action::delivered));
  const auto& late = his[0].action == mail::Action::delivered ? his[1] : his[0];
  BOOST_TEST((late.action == mail::Action::deferred));
  BOOST_TEST(late.text == "1 deliveries for \"" + user + "\" are not ended yet");
}

BOOST_AUTO_TEST_CASE(a_command_of_an_alias_knows_its_user_by_the_bare_name_of_the_alias) {
  prepare_commands();
  aliases = alias("robot", "\"|echo $USER $LOGNAME ${HOME-none} $EXTENSION > " + out("id") + "\"");
  BOOST_TEST(deliver("robot+x@here.example").dsn == "2.0.0");
  BOOST_TEST(text_of("id") == "robot robot none x\n");
}

BOOST_AUTO_TEST_CASE(commands_of_a_forward_file_run_as_its_user_by_name) {
  prepare_commands();
  const auto path = forward_file("fwd", "\"|id -un\"\n" + out("archive") + "\n");
  rules.forward_paths = {path};
  message->body = ipc::Content::in_memory(text);
  const Shared shared{rules, {}};
  Delivery task;
  task.message = message;
  task.recipient.address = user + "@here.example";
  const auto outcome = deliver_to_user(shared, task, user, false, tables_for(shared, user));
  BOOST_REQUIRE(outcome.forward);
  BOOST_REQUIRE_EQUAL(outcome.forward->direct.size(), 2U);
  for (const auto& direct : outcome.forward->direct) BOOST_TEST(direct.account == user);
  // The uid is another account's, or nobody's, as if accounts shared one: the name decides.
  Direct direct{Direct::Kind::command, "echo $LOGNAME > " + out("id"), 54321, {}, user};
  BOOST_TEST(deliver_directly(shared, task, direct).dsn == "2.0.0");
  BOOST_TEST(text_of("id") == user + "\n");
  direct.account = "no-such-user";
  BOOST_TEST((deliver_directly(shared, task, direct).action == mail::Action::deferred));
}

BOOST_AUTO_TEST_CASE(a_probe_follows_aliases_and_forward_files_and_delivers_nothing) {
  prepare_commands();
  message->envelope.purpose = mail::Purpose::probe;
  const auto ends = [&](const std::string& to) {
    const auto s = deliver(to + "@here.example");
    return (s.action == mail::Action::delivered ? "" : "no: ") + s.text;
  };
  BOOST_TEST(ends(user) == "delivers to maildir");
  BOOST_TEST(ends(user + "+x") == "delivers to maildir");
  BOOST_TEST(ends("no-such-user") == "no: unknown user: \"no-such-user\"");
  const std::string file = out("file"), ran = out("ran");
  aliases = "inline:{ {all = " + user + ", a@x.example, \"|/bin/touch " + ran + "\", " + file +
            "} {list = a@x.example, b@x.example, c@x.example, d@x.example, e@x.example, f@x.example}}";
  BOOST_TEST(ends("all") == "delivers to command: /bin/touch " + ran + "; delivers to file: " + file +
                                "; forwards to a@x.example, " + user + "@here.example");
  BOOST_TEST(ends("list") == "forwards to a@x.example, b@x.example, c@x.example, d@x.example, e@x.example, and 1 more");
  rules.forward_paths = {scratch.file("fwd")};
  forward_file("fwd", "\\" + user + ", away@x.example\n");
  BOOST_TEST(ends(user) == "delivers to maildir; forwards to away@x.example");
  // The list and a member's forward file lead to one mailbox.
  aliases = Host::alias("twice", user + ", \\" + user);
  BOOST_TEST(ends("twice").starts_with("delivers to maildir; "));
  rules.forward_paths.clear();
  rules.mailbox_command = "/bin/touch " + ran;
  BOOST_TEST(ends(user) == "delivers to command: /bin/touch " + ran);
  rules.mailbox_transport = "lmtp:unix:private/box";
  BOOST_TEST(ends(user).starts_with("passes to lmtp:unix:private/box: " + user + "@"));
  rules.luser_relay = "catch@x.example";
  rules.mailbox_transport.clear();
  BOOST_TEST(ends("no-such-user") == "forwards to catch@x.example");
  rules.mailbox_command.clear();
  rules.require_home = true;
  if (!fs::exists(::getpwnam(user.c_str())->pw_dir)) BOOST_TEST(ends(user).starts_with("no: "));
  BOOST_TEST(outbox.sent.empty());
  BOOST_TEST(box().empty());
  BOOST_TEST(!fs::exists(file));
  BOOST_TEST(!fs::exists(ran));
}

BOOST_AUTO_TEST_SUITE_END()
