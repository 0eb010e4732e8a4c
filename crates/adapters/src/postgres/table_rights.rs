//! Which rights on tables of the user's own a role lacks: asked after a statement was refused, at the start of a
//! process, and by `doctor`. Must not grant any.

use super::fault::{Fault, name};
use super::statement::{Statement, Str, values};
use diesel::sql_types as sql;
use std::collections::{BTreeMap, BTreeSet};

/// A table, and one of SELECT, INSERT, UPDATE and DELETE.
pub(super) type Right = (String, &'static str);

type MissingTypes = (sql::Text, sql::Text, sql::Text, sql::Bool);

/// Role, table, right, and whether the table is there.
pub(super) type MissingRead = (String, String, String, bool);

// Without roles that are there: of the role that asks.
const MISSING: &str =
    "WITH asked AS (SELECT rolname::text AS role FROM pg_roles WHERE rolname = ANY(?)),
       roles AS (SELECT role FROM asked UNION ALL
         SELECT current_user::text WHERE NOT EXISTS (SELECT FROM asked))
     SELECT r.role, n.name, n.privilege, to_regclass(n.name) IS NOT NULL
     FROM roles r CROSS JOIN unnest(?, ?) WITH ORDINALITY AS n (name, privilege, place)
     WHERE CASE WHEN to_regclass(n.name) IS NULL THEN TRUE
       ELSE NOT has_table_privilege(r.role::name, to_regclass(n.name), n.privilege) END
     ORDER BY r.role, n.place";

/// Those of the rights that these roles lack, as far as there are such roles; with none: the role that asks.
pub(super) fn missing<'a>(
    rights: &'a [Right],
    roles: &'a [&'a str],
) -> Result<Statement<'a, MissingTypes>, Fault> {
    let roles: Vec<Str<'a>> = roles.iter().map(|role| (*role).into()).collect();
    let tables = rights
        .iter()
        .map(|(table, _)| name("table", table))
        .collect::<Result<Vec<_>, _>>()?;
    let privileges: Vec<Str<'a>> = rights.iter().map(|(_, right)| (*right).into()).collect();
    Ok(Statement::of(MISSING, values![roles, tables, privileges]))
}

/// What would grant them, one a role and table. A table that is not there needs none.
pub(super) fn grants(missing: &[MissingRead]) -> Vec<String> {
    let mut of: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (role, table, right, is_there) in missing {
        if *is_there {
            of.entry((role, table)).or_default().push(right);
        }
    }
    of.iter()
        .map(|((role, table), rights)| {
            format!("`GRANT {} ON {table} TO {role}`", rights.join(", "))
        })
        .collect()
}

/// The same, and the tables that are not there.
pub(super) fn in_words(missing: &[MissingRead]) -> Vec<String> {
    let absent: BTreeSet<_> = missing
        .iter()
        .filter(|(_, _, _, is_there)| !is_there)
        .map(|(_, table, _, _)| format!("there is no table `{table}`"))
        .collect();
    absent.into_iter().chain(grants(missing)).collect()
}

/// The rights that a statement most likely needs: to name what is missing, not to decide by.
pub(super) fn used_by(statement: &str) -> Vec<Right> {
    let tokens: Vec<&str> = statement
        .split(|sign: char| sign.is_whitespace() || "(),;=".contains(sign))
        .filter(|token| !token.is_empty())
        .collect();
    let is = |at: usize, word: &str| {
        tokens
            .get(at)
            .is_some_and(|token| token.eq_ignore_ascii_case(word))
    };
    // A row that a condition, a conflict or RETURNING looks at is read.
    let reads = ["where", "returning", "conflict"];
    let reads = tokens
        .iter()
        .any(|token| reads.iter().any(|word| token.eq_ignore_ascii_case(word)));
    let mut used = BTreeSet::new();
    for at in 0..tokens.len() {
        let (right, table) = if is(at, "insert") && is(at + 1, "into") {
            ("INSERT", at + 2)
        } else if is(at, "delete") && is(at + 1, "from") {
            ("DELETE", at + 2)
        } else if is(at, "update") && !is(at + 1, "set") && (at == 0 || !is(at - 1, "for")) {
            ("UPDATE", at + 1)
        } else if (is(at, "from") && (at == 0 || !is(at - 1, "delete"))) || is(at, "join") {
            ("SELECT", at + 1)
        } else {
            continue;
        };
        let table = if is(table, "only") { table + 1 } else { table };
        let Some(table) = tokens.get(table) else {
            continue;
        };
        used.insert(((*table).to_owned(), right));
        if right != "SELECT" && reads {
            used.insert(((*table).to_owned(), "SELECT"));
        }
        let upserts = (0..tokens.len()).any(|at| is(at, "do") && is(at + 1, "update"));
        if right == "INSERT" && upserts {
            used.insert(((*table).to_owned(), "UPDATE"));
        }
    }
    used.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_names_the_rights_that_it_needs() {
        let used = |statement| {
            let used = used_by(statement);
            let used = used.iter().map(|(table, right)| format!("{table} {right}"));
            used.collect::<Vec<_>>().join(", ")
        };
        for (statement, rights) in [
            ("INSERT INTO seats (key) VALUES ($1)", "seats INSERT"),
            (
                "insert into shop.seats values ($1) on conflict (key) do update set n = 1",
                "shop.seats INSERT, shop.seats SELECT, shop.seats UPDATE",
            ),
            (
                "UPDATE seats SET n = n - $1 WHERE key = $2",
                "seats SELECT, seats UPDATE",
            ),
            ("DELETE FROM seats", "seats DELETE"),
            (
                "INSERT INTO seats SELECT key FROM rows JOIN holds USING (key)",
                "holds SELECT, rows SELECT, seats INSERT",
            ),
            ("SELECT 1 FROM seats FOR UPDATE", "seats SELECT"),
            ("CREATE TABLE seats (key TEXT)", ""),
        ] {
            assert_eq!(used(statement), rights, "{statement}");
        }
    }

    #[test]
    fn grants_stand_by_role_and_table() {
        let row = |role: &str, table: &str, right: &str, is_there| {
            (
                role.to_owned(),
                table.to_owned(),
                right.to_owned(),
                is_there,
            )
        };
        let missing = [
            row("worker", "seats", "INSERT", true),
            row("api", "seats", "INSERT", true),
            row("worker", "seats", "DELETE", true),
            row("worker", "not_there", "SELECT", false),
        ];
        assert_eq!(
            grants(&missing),
            [
                "`GRANT INSERT ON seats TO api`",
                "`GRANT INSERT, DELETE ON seats TO worker`"
            ]
        );
    }
}
