//! Names and rights.

use super::*;

fn names(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| part.to_string()).collect()
}

fn sequence(catalog: &Catalog, schema: &str, name: &str) -> Relation {
    Relation::Sequence(Arc::new(Sequence {
        oid: catalog.ids.oid(),
        schema: schema.to_owned(),
        name: name.to_owned(),
        options: SequenceOptions { start: 1, increment: 1, min: 1, max: 9, cycle: false },
        position: Position::new(&catalog.ids, 0),
        owned_by: None,
        owner: "alice".to_owned(),
        grants: Vec::new(),
        comment: None,
    }))
}

fn role(catalog: &mut Catalog, name: &str, member_of: &[&str]) {
    let role = Role {
        oid: catalog.ids.oid(),
        name: name.to_owned(),
        login: true,
        superuser: false,
        create_role: false,
        create_db: false,
        verifier: None,
        member_of: names(member_of),
        comment: None,
        defaults: Vec::new(),
    };
    catalog.roles.insert(name.to_owned(), Arc::new(role));
}

#[test]
fn names_are_resolved_along_the_search_path() {
    let mut catalog = Catalog::initial();
    let own =
        Schema { name: "own".into(), oid: 5, ..(**catalog.schema("public").unwrap()).clone() };
    catalog.schemas.insert("own".into(), Arc::new(own));
    catalog.put("public", "s", sequence(&catalog.clone(), "public", "s"));
    catalog.put("own", "s", sequence(&catalog.clone(), "own", "s"));
    catalog.check();
    let schema_of = |name: &[&str], path: &[&str]| {
        catalog.resolve(&names(name), &names(path)).map(|found| found.schema.name.clone())
    };
    assert_eq!(schema_of(&["s"], &["own", "public"]).as_deref(), Some("own"));
    assert_eq!(schema_of(&["s"], &["none", "public"]).as_deref(), Some("public"));
    assert_eq!(schema_of(&["db", "own", "s"], &[]).as_deref(), Some("own"));
    assert_eq!(schema_of(&["s"], &[]), None);
    let state = |name: &[&str]| {
        catalog.find_table(&names(name), &names(&["own"])).map(|_| ()).unwrap_err().state()
    };
    assert_eq!(state(&["x"]), SqlState::UNDEFINED_TABLE);
    assert_eq!(state(&["x", "y"]), SqlState::INVALID_SCHEMA_NAME);
    assert_eq!(state(&["s"]), SqlState::WRONG_OBJECT_TYPE);
    let place = |name: &[&str], path: &[&str]| {
        catalog.creation_place(&names(name), &names(path)).map_err(|error| error.state())
    };
    assert_eq!(place(&["t"], &["none", "own"]), Ok(("own".into(), "t".into())));
    assert_eq!(place(&["t"], &["none"]), Err(SqlState::INVALID_SCHEMA_NAME));
    assert_eq!(place(&["pg_catalog", "t"], &[]), Err(SqlState::INSUFFICIENT_PRIVILEGE));
    assert_eq!(catalog.free_name("own", "s", &names(&["s1"])), "s2");
    assert_eq!(catalog.refuse_taken("own", "s").unwrap_err().state(), SqlState::DUPLICATE_TABLE);
}

#[test]
fn privileges_come_by_ownership_grant_and_membership() {
    let mut catalog = Catalog::initial();
    role(&mut catalog, "alice", &[]);
    role(&mut catalog, "staff", &[]);
    role(&mut catalog, "bob", &["team"]);
    role(&mut catalog, "team", &["staff", "team"]);
    let grant = |grantee: &str| Grant {
        grantee: grantee.to_owned(),
        grantor: "alice".to_owned(),
        privilege: Privilege::Usage,
        grantable: false,
    };
    catalog.put("public", "s", sequence(&catalog.clone(), "public", "s"));
    let may = |catalog: &Catalog, user| {
        let found = catalog.require(&names(&["s"]), &names(&["public"]))?;
        catalog.require_privilege(user, &found, Privilege::Usage)
    };
    assert!(may(&catalog, SUPERUSER).is_ok() && may(&catalog, "alice").is_ok());
    let error = may(&catalog, "bob").unwrap_err();
    assert_eq!(error.state(), SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(error.message(), "permission denied for sequence s");
    for (grantee, bob) in [("staff", true), (PUBLIC, true), ("nobody", false)] {
        let mut granted = catalog.clone();
        let Some(Relation::Sequence(mut sequence)) = granted.remove("public", "s") else {
            panic!("it was put there")
        };
        Arc::make_mut(&mut sequence).grants.push(grant(grantee));
        granted.put("public", "s", Relation::Sequence(sequence));
        assert_eq!(may(&granted, "bob").is_ok(), bob, "{grantee}");
    }
    catalog.schema_mut("public").grants.clear();
    let error = may(&catalog, "alice").unwrap_err();
    assert_eq!(error.message(), "permission denied for schema public");
    assert!(catalog.require_owner("bob", "staff", "table", "t").is_ok());
    assert!(catalog.require_owner("alice", "staff", "table", "t").is_err());
}
